"""Answers as JSON."""

from typing import Any

import click
import msgspec


def echo_value(value: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))

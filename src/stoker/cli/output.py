"""Answers as JSON."""

from typing import Any

import click
import msgspec


def echo_line(value: Any) -> None:
    """For what goes on: each line is a value of its own."""
    click.echo(msgspec.json.encode(value))


def echo_value(value: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))

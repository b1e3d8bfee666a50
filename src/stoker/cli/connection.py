"""Which master a command calls, and how patiently."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from stoker.cli.options.invocation import Invocation
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.processes import discovery

if TYPE_CHECKING:
    from stoker.config.configuration import Configuration

_RETRY_KEYS = ("rest.retry.max-attempts", "rest.retry.delay")


def connect(invocation: Invocation) -> BlockingClient:
    """For most commands: if no master answers, the command fails after seconds, not minutes."""
    masters = find_masters(invocation)
    if masters is None:
        raise discovery.nothing_found("-m URL")
    options, patience_was_set = _client_options(invocation)
    if not patience_was_set:
        options = replace(options, retries=2, retry_delay=timedelta(milliseconds=500))
    return BlockingClient(masters, options)


def connect_patiently(masters: str, invocation: Invocation) -> BlockingClient:
    """For following a job: the leading master may change while the job runs."""
    options, _ = _client_options(invocation)
    return BlockingClient(masters, options, sleep=_sleep_with_notice())


def find_masters(invocation: Invocation) -> str | None:
    """None when no master is named and no local cluster is on record."""
    return discovery.find_masters(invocation.master, _configuration_if_set(invocation))


def _client_options(invocation: Invocation) -> tuple[ClientOptions, bool]:
    configuration = _configuration_if_set(invocation)
    if configuration is None:
        return ClientOptions(), False
    patience_was_set = any(key in configuration.values for key in _RETRY_KEYS)
    return configuration.of(ClientOptions), patience_was_set


def _configuration_if_set(invocation: Invocation) -> "Configuration | None":
    return discovery.configuration_if_set(invocation.config, invocation.definitions)


def _sleep_with_notice() -> Callable[[float], None]:
    """A sleep between retries that says once that no master answers."""
    said = False

    def sleep(seconds: float) -> None:
        nonlocal said
        if not said:
            click.echo("No master answers at the moment; retrying.", err=True)
            said = True
        time.sleep(seconds)

    return sleep

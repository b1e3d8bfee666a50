"""Which master a command calls, and how patiently."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from stoker.cli.options.invocation import Invocation
from stoker.client.blocking import BlockingClient
from stoker.client.masters import parse_masters
from stoker.client.options import ClientOptions
from stoker.processes import discovery
from stoker.processes.local.token import token_for
from stoker.security.binding import is_loopback

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
    options = _with_token(options, masters)
    return BlockingClient(masters, options, named_by=_place_that_names(invocation))


def connect_patiently(
    masters: str, invocation: Invocation, token: str | None = None
) -> BlockingClient:
    """For following a job: the leading master may change while the job runs.

    `token` is that of a cluster that this command has started.
    """
    options, _ = _client_options(invocation)
    options = _with_token(replace(options, token=token or options.token), masters)
    # Masters with a token of their own are those that this command has started.
    named_by = _place_that_names(invocation) if token is None else ""
    return BlockingClient(masters, options, on_retry=_notice(), named_by=named_by)


def find_masters(invocation: Invocation) -> str | None:
    """None when no master is named and no local cluster is on record."""
    return discovery.find_masters(invocation.master, _configuration_if_set(invocation))


def _place_that_names(invocation: Invocation) -> str:
    return discovery.place_that_names(invocation.master, _configuration_if_set(invocation))


def _client_options(invocation: Invocation) -> tuple[ClientOptions, bool]:
    configuration = _configuration_if_set(invocation)
    if configuration is None:
        return ClientOptions(), False
    patience_was_set = any(key in configuration.values for key in _RETRY_KEYS)
    return configuration.of(ClientOptions), patience_was_set


def _configuration_if_set(invocation: Invocation) -> "Configuration | None":
    return discovery.configuration_if_set(invocation.config, invocation.definitions)


def _notice() -> Callable[[str], None]:
    """Tells each reason for which a call is repeated, once."""
    told = ""

    def tell(reason: str) -> None:
        nonlocal told
        if reason != told:
            click.echo(f"Trying again: {reason}", err=True)
            told = reason

    return tell


def _with_token(options: ClientOptions, masters: str) -> ClientOptions:
    """A local cluster is shown its own token, and no other cluster is."""
    options = replace(options, token=token_for(masters) or options.token)
    _warn_of_plain_token(options, masters)
    return discovery.with_trusted_user(options)


def _warn_of_plain_token(options: ClientOptions, masters: str) -> None:
    if options.token is None:
        return
    for url in map(urlsplit, parse_masters(masters)):
        if url.scheme == "http" and not is_loopback(url.hostname or ""):
            click.echo(
                f"Warning: the token is sent to {url.hostname} in clear text; use https://",
                err=True,
            )

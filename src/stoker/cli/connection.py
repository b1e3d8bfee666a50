"""Which master a command calls, and how patiently."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import click

from stoker.cli.options.invocation import Invocation
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.config.sources import may_be_set
from stoker.core.errors import Unavailable
from stoker.processes.local.cluster_state import (
    ClusterState,
    default_directory,
    read_state,
    urls_of,
)

MASTER_VARIABLE = "STOKER_MASTER"
_RETRY_KEYS = ("rest.retry.max-attempts", "rest.retry.delay")


def connect(invocation: Invocation) -> BlockingClient:
    """For most commands: if no master answers, the command fails after seconds, not minutes."""
    masters = find_masters(invocation)
    if masters is None:
        raise Unavailable(
            f"no master is named; name one with -m URL, ${MASTER_VARIABLE} or the option "
            "client.master, or start a local cluster with: stoker cluster up"
        )
    options, patience_was_set = _client_options(invocation)
    if not patience_was_set:
        options = replace(options, retries=2, retry_delay=timedelta(milliseconds=500))
    return BlockingClient(masters, options)


def connect_patiently(masters: str, invocation: Invocation) -> BlockingClient:
    """For following a job: the leading master may change while the job runs."""
    options, _ = _client_options(invocation)
    return BlockingClient(masters, options, sleep=_sleep_with_notice())


def find_masters(invocation: Invocation) -> str | None:
    """None when no master is named and no local cluster was started.

    Raises Unavailable for a local cluster without a running master: its jobs wait there, so a
    command must not go on with another cluster.
    """
    named = invocation.master or os.environ.get(MASTER_VARIABLE)
    if named:
        return named
    if _may_have_settings(invocation):
        configured = invocation.configuration().of(ClientOptions).master
        if configured:
            return configured
    directory = default_directory()
    state = read_state(directory)
    if state is None:
        return None
    masters = local_masters(directory)
    if masters is None:
        raise Unavailable(_no_running_master(directory, state))
    return masters


def local_masters(directory: Path) -> str | None:
    state = read_state(directory)
    return None if state is None else ",".join(urls_of(directory, state)) or None


def _client_options(invocation: Invocation) -> tuple[ClientOptions, bool]:
    if not _may_have_settings(invocation):
        return ClientOptions(), False
    configuration = invocation.configuration()
    patience_was_set = any(key in configuration.values for key in _RETRY_KEYS)
    return configuration.of(ClientOptions), patience_was_set


def _may_have_settings(invocation: Invocation) -> bool:
    """Whether the configuration may hold anything but defaults: reading it takes time."""
    if invocation.config or invocation.definitions:
        return True
    return may_be_set(os.environ, folder=Path.cwd(), home=Path.home())


def _no_running_master(directory: Path, state: ClusterState) -> str:
    dead = ", ".join(f"{record.name} (pid {record.pid})" for record in state.dead)
    problem = (
        f"{dead} died; bring it back with: stoker cluster up"
        if dead
        else "its masters are still starting; try again"
    )
    return f"the local cluster in {directory} does not answer: {problem}"


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

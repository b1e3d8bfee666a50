"""Attached jobs: a job that is cancelled when the command which submitted it is gone.

The command sends heartbeats while it watches. The cluster cancels the job when none has come for
client.heartbeat.timeout, so a lost connection or a killed terminal ends the job as well.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from stoker.cli.options.invocation import Invocation
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.graph import JobGraph
from stoker.core.ids import JobId

if TYPE_CHECKING:
    # Commands that only watch a job should not wait for the import of what reads job files.
    from stoker.pipeline.building import LoadedJob

Heartbeat = Callable[[], None]
"""Called repeatedly while a command watches its job, so it must be cheap."""


def attach_to_client(loaded: "LoadedJob", invocation: Invocation) -> "LoadedJob":
    """Have the cluster cancel the job when its client falls silent."""
    seconds = _options(invocation).heartbeat_timeout.total_seconds()
    graph = msgspec.structs.replace(loaded.graph, client_timeout_seconds=seconds)
    return replace(loaded, graph=graph)


def heartbeat_for(graph: JobGraph, client: BlockingClient, invocation: Invocation) -> Heartbeat:
    if graph.client_timeout_seconds is None:
        return no_heartbeat
    return Attachment(client, graph.job_id, _options(invocation)).send_when_due


class Attachment:
    """Sends the heartbeats of one job's client."""

    def __init__(self, client: BlockingClient, job_id: JobId, options: ClientOptions) -> None:
        self._client = client
        self._job_id = job_id
        self._interval = options.heartbeat_interval.total_seconds()
        self._timeout = options.heartbeat_timeout.total_seconds()
        self._next = time.monotonic()

    def send_when_due(self) -> None:
        if time.monotonic() >= self._next:
            self._client.heartbeat(self._job_id, self._timeout)
            self._next = time.monotonic() + self._interval


def _options(invocation: Invocation) -> ClientOptions:
    return invocation.configuration().of(ClientOptions)


def no_heartbeat() -> None:
    """The heartbeat of a command whose job is not attached to it."""

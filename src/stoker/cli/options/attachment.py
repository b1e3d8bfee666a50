"""A job that is bound to the command which watches it: it ends when the command is gone."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from stoker.cli.options.invocation import Invocation
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.graph import JobGraph
from stoker.core.ids import JobId

if TYPE_CHECKING:
    # Commands that only watch a job should not wait for what reads job files.
    from stoker.pipeline.building import LoadedJob

Beat = Callable[[], None]
"""Called again and again while a command watches its job."""


def bound_to(loaded: "LoadedJob", invocation: Invocation) -> "LoadedJob":
    """The job, cancelled when nobody shows up for it for client.heartbeat.timeout."""
    seconds = _options(invocation).heartbeat_timeout.total_seconds()
    graph = msgspec.structs.replace(loaded.graph, client_timeout_seconds=seconds)
    return replace(loaded, graph=graph)


def beat_for(graph: JobGraph, client: BlockingClient, invocation: Invocation) -> Beat:
    if graph.client_timeout_seconds is None:
        return detached
    return Attachment(client, graph.job_id, _options(invocation)).beat


class Attachment:
    """Shows the cluster from time to time that the command is there."""

    def __init__(self, client: BlockingClient, job_id: JobId, options: ClientOptions) -> None:
        self._client = client
        self._job_id = job_id
        self._interval: timedelta = options.heartbeat_interval
        self._timeout: timedelta = options.heartbeat_timeout
        self._next = time.monotonic()

    def beat(self) -> None:
        """Cheap to call often: it asks only when it is time again."""
        if time.monotonic() >= self._next:
            self._client.heartbeat(self._job_id, self._timeout.total_seconds())
            self._next = time.monotonic() + self._interval.total_seconds()


def _options(invocation: Invocation) -> ClientOptions:
    return invocation.configuration().of(ClientOptions)


def detached() -> None:
    """The beat of a command that its job does not need."""

"""Attached jobs: a job that is cancelled when the command which submitted it is gone.

The command sends heartbeats while it watches. The cluster cancels the job when none has come for
client.heartbeat.timeout, so a lost connection or a killed terminal ends the job as well.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from stoker.cli.options.invocation import Invocation
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.errors import StokerError
from stoker.core.graph import JobGraph
from stoker.core.ids import JobId

if TYPE_CHECKING:
    # Commands that only watch a job should not wait for the import of what reads job files.
    from stoker.pipeline.building import LoadedJob

_END_SECONDS = 1.0
"""How long the command waits at its end for a heartbeat that is on its way."""


def attach_to_client(loaded: "LoadedJob", invocation: Invocation) -> "LoadedJob":
    """Have the cluster cancel the job when its client falls silent."""
    seconds = _options(invocation).heartbeat_timeout.total_seconds()
    graph = msgspec.structs.replace(loaded.graph, client_timeout_seconds=seconds)
    return replace(loaded, graph=graph)


def heartbeats_for(
    graph: JobGraph, client: BlockingClient, invocation: Invocation
) -> AbstractContextManager[None]:
    """Send heartbeats while the context is open, if the job is attached to this command."""
    if graph.client_timeout_seconds is None:
        return nullcontext()
    return sending_heartbeats(client, graph.job_id, _options(invocation))


@contextmanager
def sending_heartbeats(
    client: BlockingClient, job_id: JobId, options: ClientOptions
) -> Iterator[None]:
    """Send them from a thread, so that they continue while the command waits for its user."""
    over = threading.Event()
    # A daemon: a master that does not answer must not keep the command from ending.
    thread = threading.Thread(
        target=_send_until, args=(over, client, job_id, options), name="heartbeats", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(_END_SECONDS)


def _send_until(
    over: threading.Event, client: BlockingClient, job_id: JobId, options: ClientOptions
) -> None:
    is_over = False
    while not is_over:
        # The command, which watches the job, reports that no master answers or that it has ended.
        with suppress(StokerError):
            client.heartbeat(job_id, options.heartbeat_timeout.total_seconds())
        is_over = over.wait(options.heartbeat_interval.total_seconds())


def _options(invocation: Invocation) -> ClientOptions:
    return invocation.configuration().of(ClientOptions)

"""A cluster for the time of one command, when no other one is named or running."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from stoker.cli.errors import DEBUG
from stoker.cli.options.invocation import Invocation
from stoker.cli.output import say, show_steps
from stoker.client.options import ClientOptions
from stoker.core.graph import EngineKind
from stoker.processes.local.cluster import LocalCluster
from stoker.processes.local.cluster_state import home_directory, kept_checkpoints
from stoker.savepoints.options import RETAINED_DIRECTORY, SAVEPOINT_DIRECTORY
from stoker.security.options import RestSecurityOptions


@contextmanager
def temporary_cluster(
    invocation: Invocation, engine: EngineKind = EngineKind.CONNECT
) -> Iterator[LocalCluster]:
    """Start a cluster and yield it. It ends with this process, even if that is killed."""
    configuration = invocation.configuration(
        "rest.bind-port=0",
        f"taskmanager.engines={engine}",
        # There will be only one job: a second spare driver would take its cores.
        "taskmanager.classic.replenish-delay=1 h",
        # What a stream leaves must outlive this cluster: its next run continues from there.
        defaults={
            SAVEPOINT_DIRECTORY: str(home_directory() / "savepoints"),
            RETAINED_DIRECTORY: str(kept_checkpoints()),
        },
    )
    directory = Path(tempfile.mkdtemp(prefix="stoker-run-"))
    local = LocalCluster(directory, tied=True, client=configuration.of(ClientOptions))
    say(
        "No cluster is named or running: starting one on this machine for this command. "
        "(stoker cluster up starts one that keeps running, so the next job starts at once.)"
    )
    try:
        with exit_on_sigterm(), local as cluster:
            with show_steps("Starting the cluster") as tell:
                cluster.start(
                    configuration=configuration.as_file_text(),
                    with_token=configuration.of(RestSecurityOptions).tokens is None,
                )
                cluster.wait_until_ready(tell)
            yield cluster
    finally:
        if os.environ.get(DEBUG):
            say(f"The logs of the cluster are kept in {directory / 'log'}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that everything the command started is ended in order."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    previous = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)

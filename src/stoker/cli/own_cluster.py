"""A cluster for the time of one command, when no other is there."""

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
from stoker.cli.steps import steps
from stoker.cli.terminal import say
from stoker.client.options import ClientOptions
from stoker.core.graph import EngineKind
from stoker.processes.local.cluster import LocalCluster


@contextmanager
def cluster_for_command(
    invocation: Invocation, engine: EngineKind = EngineKind.CONNECT
) -> Iterator[str]:
    """The URL of its master. It ends with the command, however that ends."""
    configuration = invocation.configuration(
        "rest.bind-port=0",
        f"taskmanager.spark.working-directory={Path.cwd()}",
        f"taskmanager.engines={engine}",
        # One job is all that will come: a second spare driver would only take its cores.
        "taskmanager.classic.replenish-delay=1 h",
    )
    directory = Path(tempfile.mkdtemp(prefix="stoker-run-"))
    local = LocalCluster(directory, tied=True, client=configuration.of(ClientOptions))
    say(
        "No cluster is named or running: starting one on this machine for this command. "
        "(stoker cluster up starts one that stays, so that the next run begins at once.)"
    )
    try:
        with ended_by_sigterm(), local as cluster:
            with steps("Starting the cluster") as tell:
                cluster.start(configuration=configuration.as_file_text())
                cluster.wait_until_ready(tell)
            yield cluster.masters
    finally:
        if os.environ.get(DEBUG):
            say(f"The logs of the cluster are kept in {directory / 'log'}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """SIGTERM leaves by the way of all exceptions, so that what was started is ended in order."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    former = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)

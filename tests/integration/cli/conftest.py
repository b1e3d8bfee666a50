"""One local cluster for all tests of this folder: real processes, real Spark."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from builders import ODD_NAME
from stoker.processes.local.cluster import LocalCluster
from stoker.processes.local.cluster_state import (
    ClusterState,
    ProcessRecord,
    processes_of,
    read_state,
)
from stoker.processes.local.token import token_of

TERMINAL_STATES = ("FINISHED", "FAILED", "CANCELED")
SLOW_JOB = """
import time
from stoker import Pipeline

slow = Pipeline("slow", parameters={"seconds": 60})

@slow.source
def numbers(spark, params):
    time.sleep(float(params["seconds"]))
    return spark.range(10)

slow.sink("numbers", name="out", format="noop", mode="overwrite")
"""


@dataclass(frozen=True)
class CommandLine:
    """The `stoker` command as a user runs it, with its own home directory."""

    home: Path

    @property
    def directory(self) -> Path:
        """Directory of the local cluster."""
        return self.home / "local"

    @property
    def state(self) -> ClusterState:
        state = read_state(self.directory)
        assert state is not None
        return state

    @property
    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("STOKER_")}
        home = str(self.home)
        return kept | {"STOKER_HOME": home, "HOME": home, "TMPDIR": home}

    @property
    def headers(self) -> dict[str, str]:
        """What a client that is not Stoker's own has to send to the cluster."""
        return {"Authorization": f"Bearer {token_of(self.directory)}"}

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "stoker.cli.main"]

    def __call__(
        self, *arguments: str | Path, expect: int | None = 0, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*self.command, *map(str, arguments)],
            env=self.environment,
            cwd=cwd or self.home,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert expect is None or done.returncode == expect, done.stdout + done.stderr
        assert "Traceback (most recent call last):\n  File" not in done.stderr
        return done

    @contextmanager
    def started(self, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
        """A command that runs during the block, and is killed at its end if it still runs."""
        process = subprocess.Popen(
            [*self.command, *map(str, arguments)],
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def live_jobs(self, prefix: str = "") -> list[str]:
        """Ids of the jobs that have not ended and whose names begin with `prefix`."""
        jobs = json.loads(self("list", "--json").stdout)
        live = [job for job in jobs if job["state"] not in TERMINAL_STATES]
        return [job["jid"] for job in live if job["name"].startswith(prefix)]

    def submit(self, job: Path, *arguments: str) -> str:
        return self("run", "-d", job, *arguments).stdout.strip()

    def kill(self, name: str) -> None:
        (record,) = [record for record in self.state.processes if record.name == name]
        assert record.alive
        LocalCluster(self.directory).kill(record)

    def processes(self) -> list[ProcessRecord]:
        return processes_of(self.directory)


@pytest.fixture(scope="session", autouse=True)
def commands_hear_ctrl_c() -> None:
    """A script starts background commands with SIGINT ignored, and their children inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def stoker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """The command with a running local cluster of two slots, which is removed afterwards.

    All of its files, temporary ones too, are in a directory whose name many programs misread.
    """
    home = tmp_path_factory.mktemp("home") / ODD_NAME
    home.mkdir()
    yield from running_cluster(home)


def running_cluster(home: Path, *more: str) -> Iterator[CommandLine]:
    command_line = CommandLine(home)
    command_line("cluster", "up", "--rest-port", "0", "--slots", "2", *more)
    yield command_line
    command_line("cluster", "down", "--purge", "--with-savepoints", "--yes")
    assert command_line.processes() == []
    assert not command_line.directory.exists()


@pytest.fixture
def no_leftovers(stoker: CommandLine) -> Iterator[None]:
    """Cancel the jobs that a test has started and that still run at its end."""
    before = set(stoker.live_jobs())
    yield
    for job in set(stoker.live_jobs()) - before:
        stoker("cancel", job, expect=None)


@pytest.fixture
def slow_job(tmp_path: Path) -> Path:
    path = tmp_path / "slow.py"
    path.write_text(SLOW_JOB)
    return path

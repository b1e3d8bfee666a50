"""A leading master that is stopped by SIGSTOP: nobody who asks waits for it for long.

Over the embedded coordinator it leads on, so there is nobody else to answer; the point is that
every question comes to an end, at the frozen master and at the standby that would forward it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.errors import Unavailable

PATIENCE = 60.0


@contextmanager
def master(folder: Path, name: str) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """A process that answers, with its URL."""
    options = {
        "high-availability.storageDir": str(folder / "storage"),
        "process.working-dir": str(folder / "work"),
        "jobmanager.resource-id": name,
        "rest.bind-port": "0",
    }
    given = [argument for item in options.items() for argument in ("-D", "=".join(item))]
    process = subprocess.Popen(
        [sys.executable, "-m", "stoker.cli.main", "master", *given],
        env={**os.environ, "HOME": str(folder)},
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process, _url(folder / "work" / name / "master.json", process)
    finally:
        process.kill()
        process.wait()


def _url(path: Path, process: "subprocess.Popen[bytes]") -> str:
    deadline = time.monotonic() + PATIENCE
    while not path.exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return str(json.loads(path.read_text())["rest_url"])


def test_nobody_waits_long_for_a_frozen_leader(tmp_path: Path) -> None:
    options = ClientOptions(retries=0, silence=timedelta(seconds=6))
    with ExitStack() as stack:
        leader, leader_url = stack.enter_context(master(tmp_path, "leader"))
        with BlockingClient(leader_url) as client:
            assert client.jobs() == []
        _, standby_url = stack.enter_context(master(tmp_path, "standby"))
        with BlockingClient(standby_url) as client:
            assert client.jobs() == []
        leader.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        with (
            BlockingClient(f"{leader_url},{standby_url}", options) as client,
            pytest.raises(Unavailable, match="has been silent for 3 s"),
        ):
            client.jobs()
        assert time.monotonic() - began < PATIENCE
        leader.send_signal(signal.SIGCONT)
        with BlockingClient(f"{leader_url},{standby_url}") as client:
            assert client.jobs() == []

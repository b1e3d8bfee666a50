"""A leading master that is frozen by SIGSTOP does not keep its callers waiting.

With the embedded coordinator the frozen master keeps leading, so no other master can answer. But
every request ends in time, at the frozen master and at the standby that would forward it.
"""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from integration.processes.separate_processes import PATIENCE, process_of, url_of
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.errors import Unavailable


@contextmanager
def master(folder: Path, name: str) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """A master process that answers requests, and its URL."""
    with process_of(folder, "master", name) as process:
        yield process, url_of(folder, name, process)


def test_requests_to_a_frozen_leader_end_in_time(tmp_path: Path) -> None:
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

"""The ZooKeeper servers that developers and tests start locally."""

import subprocess
import sys
from pathlib import Path

import pytest

from builders import wait_until
from stoker.core.errors import StartupFailed
from stoker.core.ids import Ids
from stoker.ha.coordinator import Create
from stoker.ha.open import open_coordinator
from stoker.osproc.process_tree import start_time
from stoker.processes.local.zookeeper import LocalZooKeeper


async def test_acknowledged_writes_survive_a_restart_in_the_same_directory(tmp_path: Path):
    with LocalZooKeeper(tmp_path) as server:
        url = server.url()
        session = await open_coordinator(url, ids=Ids())
        await session.commit([Create("jobs/a", b"kept")])
        await session.close()
    with LocalZooKeeper(tmp_path) as server:
        assert server.url() == url
        session = await open_coordinator(url, ids=Ids())
        found = await session.read("jobs/a")
        await session.close()
    assert found is not None
    assert found.value == b"kept"
    server.purge()
    assert not tmp_path.exists()


def test_a_server_that_cannot_start_says_why(tmp_path: Path):
    with (
        LocalZooKeeper(tmp_path / "one") as one,
        pytest.raises(StartupFailed, match="Address already in use"),
        LocalZooKeeper(tmp_path / "two", settings={"clientPort": one.url("").split(":")[2][:-1]}),
    ):
        pass


START_ONE = """
import os, signal, sys
from pathlib import Path
from stoker.processes.local.zookeeper import LocalZooKeeper
with LocalZooKeeper(Path(sys.argv[1])) as server:
    print(server.pid(0), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_servers_die_with_the_process_that_started_them(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-c", START_ONE, tmp_path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    pid = int(done.stdout)
    wait_until(lambda: start_time(pid) is None, "the server has ended")

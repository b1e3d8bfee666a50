"""Another user of the machine listens on the ports of a local cluster, and gets no token."""

import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from builders import wait_until
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.processes.local.cluster import LocalCluster
from stoker.processes.local.cluster_state import MARK

pytestmark = [
    pytest.mark.skipif(
        os.geteuid() != 0, reason="NOT TESTED: only root can become another user of the machine"
    ),
    pytest.mark.timeout(300),
]

NOBODY = 65534
THIEF = Path(__file__).with_name("thief.py")
ANOTHER_TOKEN = "stk_0000beef_of-another-cluster"
PROGRAM = "import stoker; print(len(stoker.connect({master}).jobs()), 'jobs')"
AWAITED = """
import asyncio, stoker

async def main():
    async with stoker.connect_async({master}) as cluster:
        print(len(await cluster.jobs()), 'jobs')

asyncio.run(main())
"""


@contextmanager
def thief_at(log: Path, *ports: int) -> Iterator[None]:
    with log.open("w") as output:
        thief = subprocess.Popen(
            [sys.executable, str(THIEF), str(NOBODY), *map(str, ports)], stdout=output
        )
    try:
        wait_until(lambda: "listening" in log.read_text(), "the thief listens", 20)
        yield
    finally:
        thief.kill()
        thief.wait()


def two_free_ports() -> tuple[int, int]:
    """Outside of the range from which the kernel draws ports of clients."""
    while True:
        port = random.randrange(12_000, 30_000, 2)
        with suppress(OSError), socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", port))
            two.bind(("127.0.0.1", port + 1))
            return port, port + 1


def run(home: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    kept = {key: value for key, value in os.environ.items() if not key.startswith("STOKER_")}
    return subprocess.run(
        [sys.executable, *arguments],
        env=kept | {"STOKER_HOME": str(home), "HOME": str(home)} | variables,
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_no_client_of_a_local_cluster_sends_a_token_to_who_took_its_port(tmp_path: Path) -> None:
    """By command, by either client, inside of the cluster, and with a token of the user's own."""
    log = tmp_path / "thief.log"
    taken, free = two_free_ports()
    cluster = LocalCluster(tmp_path / "local", tied=True)
    configuration = f"rest.bind-port: {taken}-{free}"
    inside = {MARK: str(cluster.directory)}
    command = ("-m", "stoker.cli.main", "list")
    with thief_at(log, taken), cluster:
        cluster.start(task_executors=0, configuration=configuration, with_token=True)
        cluster.wait_until_ready()
        assert cluster.urls == f"http://127.0.0.1:{free}"
        for variables in ({}, inside, {"STOKER_CLIENT_TOKEN": ANOTHER_TOKEN}):
            for master in ("", repr(cluster.urls)):
                for program in (PROGRAM, AWAITED):
                    done = run(tmp_path, "-c", program.format(master=master), **variables)
                    assert done.stdout == "0 jobs\n", done.stderr
            for more in ((), ("-m", cluster.urls)):
                done = run(tmp_path, *command, *more, **variables)
                assert done.returncode == 0, done.stderr
        for host in ("127.0.0.1", "localhost", "[::1]"):
            wrong = f"http://{host}:{taken}"
            for arguments in (
                (*command, "-m", wrong),
                ("-c", PROGRAM.format(master=repr(wrong))),
                ("-c", AWAITED.format(master=repr(wrong))),
            ):
                done = run(tmp_path, *arguments, STOKER_CLIENT_TOKEN=ANOTHER_TOKEN)
                assert done.returncode != 0
                assert "the user nobody listens there, not root" in done.stderr
        token = cluster.token
    said = log.read_text()
    assert token is not None
    assert token not in said
    assert ANOTHER_TOKEN not in said


def test_who_takes_the_port_of_a_dead_leader_gets_no_token(tmp_path: Path) -> None:
    """Neither of the clients, nor of the standby that forwards their requests."""
    log = tmp_path / "thief.log"
    cluster = LocalCluster(tmp_path / "local", tied=True)
    with ExitStack() as stack:
        stack.enter_context(cluster)
        # The session of a dead leader lasts: the standby goes on forwarding to it.
        first, last = two_free_ports()
        slow = (
            "high-availability.zookeeper.client.session-timeout: 20 s\n"
            f"rest.bind-port: {first}-{last}"
        )
        cluster.start(masters=2, task_executors=0, zookeeper=1, configuration=slow, with_token=True)
        cluster.wait_until_ready()
        options = ClientOptions(token=cluster.token, retries=1)
        client = BlockingClient(cluster.masters, options)
        state = cluster.state
        assert state is not None
        leader_url = client.overview().leader
        urls = cluster.urls.split(",")
        leader = state.masters[urls.index(str(leader_url))]
        cluster.kill(leader)
        port = urlsplit(str(leader_url)).port
        assert port is not None
        stack.enter_context(thief_at(log, port))
        (standby,) = cluster.masters.split(",")
        # The session may take two ticks longer than it says, and a retry only half a second.
        patient = BlockingClient(standby, ClientOptions(token=cluster.token, retries=200))
        assert patient.jobs() == []
        assert client.jobs() == []
        token = cluster.token
    assert token is not None
    assert token not in log.read_text()

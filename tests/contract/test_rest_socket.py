"""REST over a Unix domain socket: both clients, standbys, and what a dead master leaves."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from contract.certificates import authority
from contract.test_rest_clients import client
from stoker.client.options import ClientOptions
from stoker.core.errors import AccessDenied, InvalidOption, RemoteError, StartupFailed, Unavailable
from stoker.core.states import JobStatus
from stoker.osproc.unix_socket import listen_on, url_of_socket
from stoker.rest.options import RestOptions
from stoker.security.tokens import Role, Token, TokenFile, hash_of
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import NEW, RUNNING, new_graph

NOBODY = 65534
OURS = authority("ours").material
QUICK = ClientOptions(retries=0)


@pytest.fixture(params=["rest.socket", "a, b%20 ü.socket", f"{'x' * 90}/rest.socket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    path.parent.mkdir(exist_ok=True)
    return path


@pytest.fixture(params=["blocking", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def listening_at(place: Path) -> RestOptions:
    return RestOptions(bind_port="0", socket=place)


async def test_both_clients_reach_a_master_by_its_socket(kind: str, place: Path) -> None:
    master = Master(options=listening_at(place))
    async with master.serving(), client(kind, url_of_socket(place)) as stoker:
        assert await stoker.status(RUNNING) is JobStatus.RUNNING
        assert await stoker.status(RUNNING) is JobStatus.RUNNING
        assert (await stoker.submit(new_graph())).job_id == NEW
        assert place.stat().st_mode & 0o777 == 0o600
    assert not place.exists()


async def test_a_socket_needs_the_same_token_and_no_tls(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "rest.socket"
    tokens = TokenFile(tmp_path / "tokens.json")
    text = "stk_00000001_secret"
    tokens.add(Token(id="00000001", name="r", role=Role.READ, sha256=hash_of(text), created_ms=0))
    master = Master(options=listening_at(place), tokens=tokens, tls=OURS)
    async with master.serving() as url:
        assert url.startswith("https://")
        async with client(kind, url_of_socket(place)) as stranger:
            with pytest.raises(AccessDenied, match="requires a token"):
                await stranger.jobs()
        async with client(kind, url_of_socket(place), replace(QUICK, token=text)) as reader:
            assert await reader.status(RUNNING) is JobStatus.RUNNING
            with pytest.raises(AccessDenied):
                await reader.cancel(RUNNING)


async def test_a_standby_forwards_to_the_socket_of_the_leader(kind: str, place: Path) -> None:
    leader = Master(options=listening_at(place))
    async with leader.serving():
        standby = Master(leading=False, leader=url_of_socket(place))
        async with standby.serving() as url, client(kind, url) as stoker:
            assert await stoker.status(RUNNING) is JobStatus.RUNNING
            await stoker.cancel(RUNNING)
    assert leader.dispatcher.cancelled == [RUNNING]


async def test_a_standby_whose_leader_left_no_socket_says_so(place: Path) -> None:
    standby = Master(leading=False, leader=url_of_socket(place))
    async with standby.serving() as url, httpx.AsyncClient(base_url=url) as http:
        answer = await http.get("/jobs")
    assert answer.status_code == 503
    assert url_of_socket(place) in answer.json()["errors"][0]


async def test_a_master_that_is_gone_is_named_by_its_socket(kind: str, place: Path) -> None:
    async with client(kind, url_of_socket(place), QUICK) as stoker:
        with pytest.raises(Unavailable, match="cannot reach a Stoker master at unix:///"):
            await stoker.jobs()


async def test_the_socket_of_a_killed_master_is_taken_over(place: Path) -> None:
    listen_on(place).close()
    assert place.is_socket()
    async with Master(options=listening_at(place)).serving():
        with pytest.raises(StartupFailed, match=r"another process listens.*change rest\.socket"):
            async with Master(options=listening_at(place)).serving():
                pass
        assert place.is_socket()


LISTENER = """
import os, socket, sys
os.setgid({uid}); os.setuid({uid})
listener = socket.create_server(("{host}", 0), family=socket.{family})
print(listener.getsockname()[1], flush=True)
listener.settimeout(60)
accepted, _ = listener.accept()
accepted.settimeout(60)
print(accepted.recv(100000).decode(), flush=True)
accepted.sendall(b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\n{{}}")
"""


@contextmanager
def listener_of(uid: int, host: str = "127.0.0.1") -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A process of this user that prints what it is sent; yields its port and itself."""
    family = "AF_INET6" if ":" in host else "AF_INET"
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENER.format(uid=uid, host=host, family=family)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process
    finally:
        process.kill()
        process.communicate()


only_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="NOT TESTED: only root can become another user of the machine"
)


@only_root
@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0"])
async def test_another_user_who_took_a_port_is_sent_no_token(kind: str, host: str) -> None:
    trusting = replace(QUICK, token="stk_secret", server_user=str(os.getuid()))
    with listener_of(NOBODY, host) as (port, process):
        url = f"http://localhost:{port}"
        async with client(kind, url, trusting) as stoker:
            with pytest.raises(
                InvalidOption, match=r"the user nobody.*client\.server-user"
            ) as said:
                await stoker.jobs()
        assert "stk_secret" not in said.value.message
        process.kill()
        assert process.stdout is not None
        assert process.stdout.read() == ""


@only_root
@pytest.mark.parametrize("user", ["nobody", str(NOBODY)])
async def test_the_user_who_is_named_as_the_one_of_the_master_is_trusted(
    kind: str,
    user: str,
) -> None:
    trusting = replace(QUICK, token="stk_secret", server_user=user)
    with listener_of(NOBODY) as (port, process):
        async with client(kind, f"http://127.0.0.1:{port}", trusting) as stoker:
            with pytest.raises(RemoteError):
                await stoker.jobs()
        assert process.stdout is not None
        assert "stk_secret" in process.stdout.read()


async def test_an_unknown_user_of_the_master_is_an_error(kind: str) -> None:
    options = replace(QUICK, token="stk_secret", server_user="no-such-user")
    async with client(kind, "http://127.0.0.1:1", options) as stoker:
        with pytest.raises(InvalidOption, match=r"client\.server-user: there is no user"):
            await stoker.jobs()


async def test_a_file_is_not_taken_for_a_socket(place: Path) -> None:
    place.write_text("mine")
    with pytest.raises(StartupFailed, match=r"is not a socket; change rest\.socket"):
        async with Master(options=listening_at(place)).serving():
            pass
    assert place.read_text() == "mine"

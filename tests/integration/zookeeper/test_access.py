"""Access rights over ZooKeeper: credentials, TLS, and read-only servers."""

import asyncio
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from integration.zookeeper.conftest import OPTIONS, OpenSession, wait_for_state
from stoker.core.errors import CoordinatorUnavailable
from stoker.core.ids import Ids
from stoker.ha.coordinator import ConnectionState, Create, Put
from stoker.ha.open import open_coordinator
from stoker.ha.zookeeper.options import AccessControl, ZooKeeperOptions
from stoker.processes.local.zookeeper import LocalZooKeeper

IMPATIENT = replace(OPTIONS, connection_timeout=timedelta(seconds=2))


@pytest.fixture
def root() -> str:
    """A new root for each test: its owner is the session that creates it."""
    return f"private-{uuid.uuid4().hex}"


async def test_nodes_are_accessible_only_with_the_credentials_of_their_creator(
    open_session: OpenSession,
):
    ours = replace(OPTIONS, acl=AccessControl.CREATOR, auth=("digest:stoker:secret",))
    one, same = await open_session(options=ours), await open_session(options=ours)
    await one.commit([Create("jobs/a", b"")])
    await same.sync()
    await same.commit([Put("jobs/a", b"new", 0)])
    for auth in ((), ("digest:stoker:guess",)):
        with pytest.raises(CoordinatorUnavailable, match=r"acl, \.auth"):
            await open_session(options=replace(OPTIONS, auth=auth))


async def test_a_root_below_a_foreign_node_can_be_used_once_it_exists(
    ensemble: LocalZooKeeper, open_session: OpenSession, root: str
):
    admin = replace(OPTIONS, acl=AccessControl.CREATOR, auth=("digest:admin:secret",))
    await open_session(options=admin)
    both = replace(OPTIONS, auth=("digest:admin:secret",))
    below = f"{ensemble.url(root)}/team"
    for options in (both, OPTIONS):
        session = await open_coordinator(below, ids=Ids(), options=options)
        await session.commit([Create(f"of-{len(options.auth)}", b"")])
        await session.close()


async def test_nodes_of_an_open_past_are_reported(
    open_session: OpenSession, caplog: pytest.LogCaptureFixture
):
    before = await open_session()
    await before.commit([Create("jobs/a", b"")])
    ours = replace(OPTIONS, acl=AccessControl.CREATOR, auth=("digest:stoker:secret",))
    session = await open_session(options=ours)
    assert "/+jobs" in caplog.text
    assert "setAcl -R" in caplog.text
    assert await session.read("jobs/a") is not None


async def test_nodes_of_their_creator_are_not_reported(
    open_session: OpenSession, caplog: pytest.LogCaptureFixture
):
    ours = replace(OPTIONS, acl=AccessControl.CREATOR, auth=("digest:stoker:secret",))
    first = await open_session(options=ours)
    await first.commit([Create("jobs/a", b"")])
    await open_session(options=ours)
    assert "setAcl" not in caplog.text


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for loopback and its key, in one file."""
    directory = tmp_path_factory.mktemp("tls")
    key, cert = directory / "key.pem", directory / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", key, "-out", cert),
        ],
        check=True,
        capture_output=True,
        timeout=30,
    )
    both = directory / "both.pem"
    both.write_text(key.read_text() + cert.read_text())
    return both


@pytest.fixture
def secure_port(tmp_path: Path, certificate: Path, unused_tcp_port: int) -> Iterator[int]:
    settings = {
        "secureClientPort": str(unused_tcp_port),
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(certificate),
        "ssl.trustStore.location": str(certificate),
        "ssl.clientAuth": "need",
    }
    with LocalZooKeeper(tmp_path, settings=settings):
        yield unused_tcp_port


async def test_a_session_over_tls_presents_and_demands_certificates(
    secure_port: int, certificate: Path
):
    url, own = f"zookeeper://127.0.0.1:{secure_port}/stoker", str(certificate)
    trusting = replace(IMPATIENT, tls=True, tls_authorities=own)
    whole = replace(trusting, tls_certificate=own, tls_key=own)
    session = await open_coordinator(url, ids=Ids(), options=whole)
    await session.commit([Create("a", b"x" * 512 * 1024)])
    found = await session.read("a")
    assert found is not None
    assert len(found.value) == 512 * 1024
    await session.close()
    strangers = replace(whole, tls_authorities=None)
    for options in (IMPATIENT, trusting, strangers):
        with pytest.raises(CoordinatorUnavailable):
            await open_coordinator(url, ids=Ids(), options=options)


@pytest.fixture
def two_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalZooKeeper]:
    """Two servers, each of which keeps answering reads without the other."""
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Dreadonlymode.enabled=true")
    with LocalZooKeeper(tmp_path, servers=2) as servers:
        yield servers


async def test_read_only_servers_count_as_unavailable(two_servers: LocalZooKeeper):
    patient = ZooKeeperOptions(session_timeout=timedelta(seconds=20))
    session = await open_coordinator(two_servers.url(), ids=Ids(), options=patient)
    try:
        await session.commit([Create("a", b"")])
        two_servers.kill(1)
        await wait_for_state(session, ConnectionState.SUSPENDED)
        await _until_read_only(two_servers)
        assert session.state is ConnectionState.SUSPENDED
        for call in (session.read("a"), session.commit([Put("a", b"never")])):
            with pytest.raises(CoordinatorUnavailable):
                await call
        with pytest.raises(CoordinatorUnavailable, match="majority"):
            await open_coordinator(two_servers.url(), ids=Ids(), options=IMPATIENT)
        two_servers.restart(1)
        await wait_for_state(session, ConnectionState.CONNECTED)
        await session.commit([Put("a", b"new", 0)])
    finally:
        await session.close()


async def _until_read_only(servers: LocalZooKeeper) -> None:
    async with asyncio.timeout(20):
        while await asyncio.to_thread(servers.mode, 0) != "read-only":  # noqa: ASYNC110
            await asyncio.sleep(0.1)

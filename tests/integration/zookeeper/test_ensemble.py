"""ZooKeeper servers die, freeze and return; the sessions survive."""

import asyncio
import contextlib
from datetime import timedelta

import pytest

from integration.zookeeper.conftest import OPTIONS, SERVERS, OpenSession, wait_for_state
from stoker.core.errors import ConnectionLost, CoordinatorUnavailable, Unavailable
from stoker.core.ids import Ids
from stoker.ha.coordinator import ConnectionState, Coordinator, Create, Put, Watch
from stoker.ha.open import open_coordinator
from stoker.ha.zookeeper.options import ZooKeeperOptions
from stoker.processes.local.zookeeper import LocalZooKeeper

PATIENT = ZooKeeperOptions(session_timeout=timedelta(seconds=15))
"""For sessions that must outlive the faults of the servers."""


async def put_until_it_succeeds(session: Coordinator, key: str, value: bytes) -> float:
    """Repeat a write until it succeeds; returns the seconds that this took."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with asyncio.timeout(15):
        while True:
            try:
                await session.commit([Put(key, value)])
                return loop.time() - begun
            except Unavailable:
                await asyncio.sleep(0.05)


async def value_of(session: Coordinator, key: str) -> bytes:
    await session.sync()
    found = await session.read(key)
    assert found is not None
    return found.value


async def test_sessions_keep_working_with_one_server_down(
    ensemble: LocalZooKeeper, open_session: OpenSession
):
    sessions = [await open_session(options=PATIENT) for _ in range(3)]
    names = {session.session for session in sessions}
    await sessions[0].commit([Create("a", b"0"), Create("mine", b"", ephemeral=True)])
    leader = ensemble.leader()
    assert leader is not None
    ensemble.kill((leader + 1) % SERVERS)
    for number, session in enumerate(sessions):
        await put_until_it_succeeds(session, "a", b"%d" % number)
        assert await value_of(session, "a") == b"%d" % number
    assert {session.session for session in sessions} == names
    assert await sessions[1].read("mine") is not None


async def test_sessions_survive_the_death_of_the_leading_server(
    ensemble: LocalZooKeeper, open_session: OpenSession
):
    session, other = await open_session(options=PATIENT), await open_session(options=PATIENT)
    await session.commit([Create("a", b""), Create("mine", b"", ephemeral=True)])
    leader = ensemble.leader()
    assert leader is not None
    ensemble.kill(leader)
    took = await put_until_it_succeeds(session, "a", b"new")
    assert took < 8
    await put_until_it_succeeds(other, "a", b"newer")
    assert await value_of(session, "a") == b"newer"
    assert session.state is ConnectionState.CONNECTED
    assert await other.read("mine") is not None


async def test_without_a_majority_calls_fail_fast_until_it_is_back(
    ensemble: LocalZooKeeper, open_session: OpenSession
):
    # The session is at the server that survives. Clients of the others could move there, and would
    # be answered, until that server notices that it has no majority.
    session = await open_session(at=ensemble.addresses[2], options=PATIENT)
    name = session.session
    await session.commit([Create("a", b"old"), Create("mine", b"", ephemeral=True)])
    watch = Watch()
    await session.read("a", watch=watch)
    for index in (0, 1):
        ensemble.kill(index)
    await wait_for_state(session, ConnectionState.SUSPENDED)
    assert watch.has_fired
    async with asyncio.timeout(0.5):
        for call in (
            session.read("a"),
            session.children("a"),
            session.commit([Put("a", b"never")]),
            session.sync(),
        ):
            with pytest.raises(CoordinatorUnavailable):
                await call
    # Without an answer from a server, the time of the last contact does not advance.
    contact = session.last_contact
    await asyncio.sleep(0.5)
    assert session.last_contact == contact
    ensemble.start()
    await wait_for_state(session, ConnectionState.CONNECTED)
    await put_until_it_succeeds(session, "a", b"new")
    assert (await value_of(session, "a"), session.session) == (b"new", name)
    assert session.last_contact > contact
    assert await session.read("mine") is not None


async def test_no_session_opens_without_a_majority(ensemble: LocalZooKeeper, root: str):
    for index in (0, 1):
        ensemble.kill(index)
    options = ZooKeeperOptions(
        session_timeout=timedelta(seconds=2), connection_timeout=timedelta(seconds=1)
    )
    with pytest.raises(CoordinatorUnavailable, match="majority"):
        async with asyncio.timeout(10):
            await open_coordinator(ensemble.url(root), ids=Ids(), options=options)


async def test_calls_to_a_frozen_server_end_in_bounded_time(
    ensemble: LocalZooKeeper, open_session: OpenSession
):
    """The server may have applied the write before it froze, so the outcome is unknown."""
    session = await open_session(at=ensemble.addresses[0])
    await session.commit([Create("a", b"")])
    ensemble.freeze(0)
    async with asyncio.timeout(3 * session.session_timeout):
        with pytest.raises(ConnectionLost):
            await session.commit([Put("a", b"late")])
    await wait_for_state(session, ConnectionState.SUSPENDED)
    ensemble.thaw(0)


async def test_a_busy_client_notices_a_frozen_server(
    ensemble: LocalZooKeeper, open_session: OpenSession
):
    """Requests that are sent but not answered are no sign of life."""
    session = await open_session(at=ensemble.addresses[0])
    await session.commit([Create("a", b"")])

    async def be_busy() -> None:
        async with asyncio.TaskGroup() as tasks:
            while session.state is ConnectionState.CONNECTED:
                tasks.create_task(read_in_vain())
                await asyncio.sleep(0.05)

    async def read_in_vain() -> None:
        with contextlib.suppress(CoordinatorUnavailable):
            await session.read("a")

    ensemble.freeze(0)
    async with asyncio.timeout(2 * session.session_timeout):
        await be_busy()
    ensemble.thaw(0)


async def test_a_session_with_a_frozen_server_can_be_closed(
    ensemble: LocalZooKeeper, open_session: OpenSession
):
    session = await open_session(at=ensemble.addresses[0], options=PATIENT)
    ensemble.freeze(0)
    async with asyncio.timeout(5):
        await session.close()
    assert session.state is ConnectionState.LOST


async def test_a_session_outlives_a_frozen_server(
    ensemble: LocalZooKeeper, open_session: OpenSession
):
    session = await open_session(at=",".join(ensemble.addresses[:2]), options=PATIENT)
    await session.commit([Create("a", b""), Create("mine", b"", ephemeral=True)])
    name = session.session
    follower = next(index for index in (0, 1) if index != ensemble.leader())
    ensemble.freeze(follower)
    await asyncio.sleep(1)
    await put_until_it_succeeds(session, "a", b"new")
    assert session.session == name
    assert await session.read("mine") is not None


async def test_the_servers_limit_the_session_timeout(open_session: OpenSession):
    asked = ZooKeeperOptions(session_timeout=timedelta(milliseconds=500))
    assert (await open_session(options=asked)).session_timeout == 1.0
    assert (await open_session()).session_timeout == OPTIONS.session_timeout.total_seconds()
    asked = ZooKeeperOptions(session_timeout=timedelta(hours=1))
    assert (await open_session(options=asked)).session_timeout == 60.0

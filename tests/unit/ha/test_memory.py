"""The faults that the in-memory coordinator simulates."""

import asyncio

import pytest

from builders import virtual
from stoker.core.errors import ConnectionLost, CoordinatorUnavailable, SessionExpired
from stoker.ha.coordinator import ConnectionState, Create, Put, Watch
from stoker.ha.memory import Loss, MemoryCoordination


@pytest.fixture
def coordination() -> MemoryCoordination:
    return MemoryCoordination()


@pytest.mark.parametrize("loss", list(Loss))
async def test_a_commit_whose_connection_is_lost_may_have_been_applied(
    coordination: MemoryCoordination, loss: Loss
):
    session, other = coordination.session(), coordination.session()
    coordination.lose_next_commit(session, loss)
    with pytest.raises(ConnectionLost):
        await session.commit([Create("a", b"")])
    assert session.state is ConnectionState.SUSPENDED
    with pytest.raises(CoordinatorUnavailable):
        await session.read("a")
    coordination.resume(session)
    assert (await session.read("a") is not None) == (loss is Loss.AFTER_APPLYING)
    assert (await other.read("a") is not None) == (loss is Loss.AFTER_APPLYING)


async def test_a_delayed_session_reads_old_values_until_it_syncs(
    coordination: MemoryCoordination,
):
    writer, reader = coordination.session(), coordination.session()
    await writer.commit([Create("a", b"old")])
    watch = Watch()
    await reader.read("a", watch=watch)
    coordination.delay_reads(reader)
    await writer.commit([Put("a", b"new"), Create("b/c", b"")])
    found = await reader.read("a")
    assert found is not None
    assert (found.value, watch.has_fired) == (b"old", False)
    assert await reader.children("b") == []
    await reader.sync()
    found = await reader.read("a")
    assert found is not None
    assert (found.value, watch.has_fired) == (b"new", True)


async def test_a_delayed_session_sees_its_own_write(coordination: MemoryCoordination):
    writer, reader = coordination.session(), coordination.session()
    coordination.delay_reads(reader)
    await writer.commit([Create("a", b"")])
    await reader.commit([Create("b", b"")])
    assert await reader.read("a") is not None
    assert await reader.read("b") is not None


async def test_a_suspended_session_keeps_its_keys_and_its_watches_fire(
    coordination: MemoryCoordination,
):
    session, other = coordination.session(), coordination.session()
    await session.commit([Create("a", b"", ephemeral=True)])
    watch = Watch()
    await session.read("a", watch=watch)
    coordination.suspend(session)
    assert watch.has_fired
    assert await other.read("a") is not None
    coordination.resume(session)
    assert session.state is ConnectionState.CONNECTED


async def test_a_session_that_expired_unnoticed_learns_of_it_at_its_next_call(
    coordination: MemoryCoordination,
):
    session, other = coordination.session(), coordination.session()
    await session.commit([Create("a", b"", ephemeral=True)])
    coordination.expire(session, tell=False)
    assert session.state is ConnectionState.CONNECTED
    assert await other.read("a") is None
    with pytest.raises(SessionExpired):
        await session.commit([Create("b", b"")])
    assert session.state is ConnectionState.LOST


@virtual
async def test_a_session_ends_after_its_timeout_and_learns_of_it_when_resumed():
    coordination = MemoryCoordination(session_timeout=0.01)
    session, other = coordination.session(), coordination.session()
    await session.commit([Create("a", b"", ephemeral=True)])
    watch = Watch()
    await other.read("a", watch=watch)
    coordination.suspend(session)
    async with asyncio.timeout(5):
        await watch.wait()
    assert session.state is ConnectionState.SUSPENDED
    coordination.resume(session)
    assert session.state is ConnectionState.LOST


@virtual
async def test_an_auto_renewing_coordinator_begins_another_session():
    coordination = MemoryCoordination(session_timeout=0.01)
    auto_renewing, other = coordination.session(auto_renewing=True), coordination.session()
    first = auto_renewing.session
    await auto_renewing.commit([Create("a", b"")])
    watch = Watch()
    await auto_renewing.read("a", watch=watch)
    coordination.suspend(auto_renewing)
    assert watch.has_fired
    await asyncio.sleep(0.02)
    assert auto_renewing.state is ConnectionState.SUSPENDED
    coordination.resume(auto_renewing)
    assert auto_renewing.state is ConnectionState.CONNECTED
    assert auto_renewing.session != first
    watch = Watch()
    await auto_renewing.read("a", watch=watch)
    await other.commit([Put("a", b"new")])
    assert watch.has_fired
    coordination.expire(auto_renewing, tell=False)
    assert await auto_renewing.read("a") is not None
    coordination.expire(auto_renewing)
    assert auto_renewing.state is ConnectionState.CONNECTED


@virtual
async def test_the_last_contact_is_the_one_before_the_silence():
    coordination = MemoryCoordination(session_timeout=10)
    session = coordination.session()
    loop = asyncio.get_running_loop()
    await session.sync()
    assert session.session_timeout == 10
    coordination.suspend(session)
    silent_since = loop.time()
    await asyncio.sleep(0.01)
    assert session.last_contact <= silent_since
    coordination.resume(session)
    assert session.last_contact > silent_since
    coordination.expire(session, tell=False)
    ended = loop.time()
    await asyncio.sleep(0.01)
    assert session.last_contact <= ended

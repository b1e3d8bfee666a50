"""Election and retrieval over real servers; each process has its own session."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from builders import eventually
from integration.zookeeper.conftest import OPTIONS, SESSION_SECONDS, OpenSession, wait_for_state
from integration.zookeeper.proxy import Proxy
from stoker.core.errors import LeadershipLost, StokerError
from stoker.core.ids import Ids, ResourceId
from stoker.ha.coordinator import ConnectionState, Coordinator, Create
from stoker.ha.election import LeaderElection
from stoker.ha.leadership import Leadership
from stoker.ha.publication import LeaderAddress
from stoker.ha.retrieval import LeaderRetrieval
from stoker.ha.zookeeper.options import ZooKeeperOptions

COMPONENT = "dispatcher"
TOLERANT = replace(OPTIONS, tolerates_suspension=True)
PATIENT = replace(TOLERANT, session_timeout=timedelta(seconds=20))
"""The session timeout is longer than a reconnection takes on a busy machine."""


class Process:
    """A process that takes part in the election, and records the epochs under which it led."""

    def __init__(self, name: str, coordinator: Coordinator, epochs: list[int]) -> None:
        self.name = name
        self.coordinator = coordinator
        self.epochs = epochs
        self.leadership: Leadership | None = None
        self._election = LeaderElection(coordinator, process=ResourceId(name), ids=Ids())
        self._tasks = [
            asyncio.create_task(self._election.run()),
            asyncio.create_task(self._election.run_while_leading(COMPONENT, self._lead)),
        ]

    async def _lead(self, leadership: Leadership) -> None:
        self.epochs.append(leadership.token.epoch)
        self.leadership = leadership
        try:
            await leadership.publish(self.name)
            await asyncio.Event().wait()
        finally:
            self.leadership = None

    async def stop(self) -> None:
        """Leave the election first, like a process that receives SIGTERM."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError, StokerError):
                await task


class Cluster:
    def __init__(self, open_session: OpenSession) -> None:
        self._open_session = open_session
        self.epochs: list[int] = []
        self.processes: list[Process] = []

    async def process(
        self, *, at: str | None = None, options: ZooKeeperOptions = OPTIONS
    ) -> Process:
        coordinator = await self._open_session(at=at, options=options)
        process = Process(f"master-{len(self.processes)}", coordinator, self.epochs)
        self.processes.append(process)
        return process

    @property
    def leaders(self) -> list[Process]:
        return [process for process in self.processes if process.leadership]

    async def next_leader(self, *, other_than: Process | None = None) -> Process:
        def found() -> bool:
            return any(process is not other_than for process in self.leaders)

        await eventually(found)
        (leader,) = [process for process in self.leaders if process is not other_than]
        return leader


@pytest.fixture
async def cluster(open_session: OpenSession) -> AsyncIterator[Cluster]:
    cluster = Cluster(open_session)
    yield cluster
    for process in cluster.processes:
        await process.stop()


@asynccontextmanager
async def follow_leader(coordinator: Coordinator) -> AsyncIterator[LeaderRetrieval]:
    retrieval = LeaderRetrieval(coordinator, COMPONENT)
    following = asyncio.create_task(retrieval.run())
    try:
        yield retrieval
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError, StokerError):
            await following


async def test_exactly_one_process_leads_after_each_death_until_none_is_left(cluster: Cluster):
    """No two of them share an epoch (LEAD-12)."""
    left = {await cluster.process() for _ in range(3)}
    while left:
        leader = await cluster.next_leader()
        assert leader in left
        assert cluster.leaders == [leader]
        await leader.coordinator.close()
        await leader.stop()
        left.remove(leader)
    assert cluster.leaders == []
    assert len(set(cluster.epochs)) == 3
    assert cluster.epochs == sorted(cluster.epochs)


async def test_a_leader_that_stops_hands_over_at_once(cluster: Cluster):
    for _ in range(3):
        await cluster.process()
    for _ in range(2):
        leader = await cluster.next_leader()
        begun = asyncio.get_running_loop().time()
        await leader.stop()
        await cluster.next_leader(other_than=leader)
        assert asyncio.get_running_loop().time() - begun < SESSION_SECONDS / 2
    assert cluster.epochs == sorted(set(cluster.epochs))


async def test_a_leader_that_is_cut_off_stops_leading_and_another_takes_over(
    cluster: Cluster, proxy: Proxy, open_session: OpenSession
):
    """It stops at once, its address is removed, and its late write refused (LEAD-13, LEAD-14)."""
    first = await cluster.process(at=proxy.address)
    await cluster.next_leader()
    stale = first.leadership
    assert stale is not None
    async with follow_leader(await open_session()) as retrieval:
        async with asyncio.timeout(5):
            assert (await retrieval.wait_for_leader()).process == first.name
        second = await cluster.process()
        proxy.cut()
        await eventually(lambda: not cluster.leaders, seconds=1)
        async with asyncio.timeout(15):
            await retrieval.wait_for_leader_other_than(retrieval.leader)
        assert await cluster.next_leader() is second
        async with asyncio.timeout(5):
            assert (await _leader_other_than(retrieval, first)).process == second.name
        proxy.heal()
        with pytest.raises(LeadershipLost):
            await stale.commit([Create("late", b"")])
        await second.coordinator.sync()
        assert await second.coordinator.read("late") is None
    assert cluster.epochs == sorted(set(cluster.epochs))


async def _leader_other_than(retrieval: LeaderRetrieval, process: Process) -> LeaderAddress:
    async for leader in retrieval.leaders():
        if leader is not None and leader.process != process.name:
            return leader
    raise AssertionError


async def test_a_listener_that_is_cut_off_knows_no_leader_until_it_is_reconnected(
    cluster: Cluster, proxy: Proxy, open_session: OpenSession
):
    """The leader itself is not affected (LEAD-19)."""
    leader = await cluster.process()
    observed: list[str | None] = []
    async with follow_leader(await open_session(at=proxy.address, auto_renewing=True)) as retrieval:

        async def observe() -> None:
            async for address in retrieval.leaders():
                observed.append(address.process if address else None)

        observing = asyncio.create_task(observe())
        await eventually(lambda: observed[-1:] == [leader.name])
        proxy.cut()
        await eventually(lambda: observed[-1:] == [None])
        proxy.heal()
        await eventually(lambda: observed[-1:] == [leader.name])
        observing.cancel()
    assert cluster.leaders == [leader]


async def test_a_tolerated_suspension_ends_neither_leadership_nor_retrieval(
    cluster: Cluster, proxy: Proxy, open_session: OpenSession
):
    """The leader writes again after the reconnection, in the same epoch (LEAD-15)."""
    leader = await cluster.process(at=proxy.address, options=PATIENT)
    await cluster.next_leader()
    await cluster.process()
    listener = await open_session(at=proxy.address, auto_renewing=True, options=PATIENT)
    async with follow_leader(listener) as retrieval:
        async with asyncio.timeout(5):
            observed = await retrieval.wait_for_leader()
        proxy.cut()
        for session in (leader.coordinator, listener):
            await wait_for_state(session, ConnectionState.SUSPENDED)
        assert cluster.leaders == [leader]
        assert retrieval.leader == observed
        proxy.heal()
        for session in (leader.coordinator, listener):
            await wait_for_state(session, ConnectionState.CONNECTED)
        assert leader.leadership is not None
        await leader.leadership.commit([Create("written", b"")])
        assert retrieval.leader == observed
    assert cluster.leaders == [leader]
    assert len(cluster.epochs) == 1


async def test_a_suspension_is_tolerated_no_longer_than_the_session_lives(
    cluster: Cluster, proxy: Proxy
):
    """The leader's own clock tells it, before ZooKeeper can (LEAD-15)."""
    first = await cluster.process(at=proxy.address, options=TOLERANT)
    await cluster.next_leader()
    grant = first.leadership.grant if first.leadership else None
    assert grant is not None
    second = await cluster.process()
    proxy.cut()
    await eventually(lambda: second in cluster.leaders)
    assert not grant.is_valid, "the first leader's clock shows that its session may be over"
    proxy.heal()
    await wait_for_state(first.coordinator, ConnectionState.LOST)
    await eventually(lambda: cluster.leaders == [second])
    assert cluster.epochs == sorted(set(cluster.epochs))

"""The election and the retrieval over real servers, each process with a session of its own."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from integration.zookeeper.conftest import SESSION_SECONDS, OpenSession
from integration.zookeeper.proxy import Proxy
from stoker.core.errors import LeadershipLost, StokerError
from stoker.core.ids import Ids, ResourceId
from stoker.ha.coordinator import Coordinator, Create
from stoker.ha.election import LeaderElection
from stoker.ha.leadership import Leadership
from stoker.ha.publication import LeaderAddress
from stoker.ha.retrieval import LeaderRetrieval

COMPONENT = "dispatcher"


class Process:
    """One that takes part in the election, and notes under which epochs it led."""

    def __init__(self, name: str, coordinator: Coordinator, epochs: list[int]) -> None:
        self.name = name
        self.coordinator = coordinator
        self.epochs = epochs
        self.leadership: Leadership | None = None
        self._election = LeaderElection(coordinator, process=ResourceId(name), ids=Ids())
        self._tasks = [
            asyncio.create_task(self._election.run()),
            asyncio.create_task(self._election.contend(COMPONENT, self._lead)),
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
        """As at SIGTERM: out of the election first."""
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

    async def process(self, *, at: str | None = None) -> Process:
        coordinator = await self._open_session(at=at)
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


async def eventually(condition: Callable[[], bool], seconds: float = 15) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.fixture
async def cluster(open_session: OpenSession) -> AsyncIterator[Cluster]:
    cluster = Cluster(open_session)
    yield cluster
    for process in cluster.processes:
        await process.stop()


@asynccontextmanager
async def followed(coordinator: Coordinator) -> AsyncIterator[LeaderRetrieval]:
    retrieval = LeaderRetrieval(coordinator, COMPONENT)
    following = asyncio.create_task(retrieval.run())
    try:
        yield retrieval
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError, StokerError):
            await following


async def test_exactly_one_leads_again_and_again_until_none_is_left(cluster: Cluster):
    # LEAD-12
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


async def test_a_leader_that_is_cut_off_leads_no_more_and_another_follows(
    cluster: Cluster, proxy: Proxy, open_session: OpenSession
):
    # LEAD-13, LEAD-14
    first = await cluster.process(at=proxy.address)
    await cluster.next_leader()
    stale = first.leadership
    assert stale is not None
    async with followed(await open_session()) as retrieval:
        async with asyncio.timeout(5):
            assert (await retrieval.wait_for_leader()).process == first.name
        second = await cluster.process()
        proxy.cut()
        await eventually(lambda: not cluster.leaders, seconds=1)
        async with asyncio.timeout(15):
            await retrieval.wait_while(retrieval.leader)
        assert await cluster.next_leader() is second
        async with asyncio.timeout(5):
            assert (await _leader_other_than(retrieval, first)).process == second.name
        proxy.heal()
        with pytest.raises((LeadershipLost, StokerError)):
            await stale.commit([Create("late", b"")])
        await second.coordinator.sync()
        assert await second.coordinator.read("late") is None
    assert cluster.epochs == sorted(set(cluster.epochs))


async def _leader_other_than(retrieval: LeaderRetrieval, process: Process) -> LeaderAddress:
    async for leader in retrieval.leaders():
        if leader is not None and leader.process != process.name:
            return leader
    raise AssertionError


async def test_a_listener_that_is_cut_off_knows_no_leader_and_is_told_again(
    cluster: Cluster, proxy: Proxy, open_session: OpenSession
):
    # LEAD-19
    leader = await cluster.process()
    told: list[str | None] = []
    async with followed(await open_session(at=proxy.address, lasting=True)) as retrieval:

        async def note() -> None:
            async for address in retrieval.leaders():
                told.append(address.process if address else None)

        noting = asyncio.create_task(note())
        await eventually(lambda: told[-1:] == [leader.name])
        proxy.cut()
        await eventually(lambda: told[-1:] == [None])
        proxy.heal()
        await eventually(lambda: told[-1:] == [leader.name])
        noting.cancel()
    assert cluster.leaders == [leader]

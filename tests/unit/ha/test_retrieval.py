"""Leader retrieval, on virtual time."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from stoker.aio.scope import TaskScope
from stoker.core.errors import SessionExpired
from stoker.core.ids import Ids, ResourceId, SessionId
from stoker.core.values import FencingToken
from stoker.ha import keys
from stoker.ha.coordinator import Create, Delete, Put
from stoker.ha.memory import MemoryCoordination
from stoker.ha.publication import LeaderAddress
from stoker.ha.record import encode
from stoker.ha.retrieval import LeaderRetrieval
from stoker.testing.leadership import seize_leadership
from stoker.testing.virtual_time import run_virtual

KEY = keys.leader("dispatcher")


def address(name: str, epoch: int = 1) -> LeaderAddress:
    return LeaderAddress(
        component="dispatcher",
        address=name,
        token=FencingToken(epoch=epoch, session=SessionId("s")),
        process=ResourceId(name),
    )


class Harness:
    def __init__(self, scope: TaskScope) -> None:
        self.coordination = MemoryCoordination()
        self.writer = self.coordination.session()
        self.session = self.coordination.session()
        self.retrieval = LeaderRetrieval(self.session, "dispatcher")
        self.reported: list[str | None] = []
        self.running = scope.spawn("retrieval", self._run())
        scope.spawn("listener", self._listen())
        self.error: SessionExpired | None = None

    async def _run(self) -> None:
        try:
            await self.retrieval.run()
        except SessionExpired as error:
            self.error = error

    async def _listen(self) -> None:
        async for leader in self.retrieval.leaders():
            self.reported.append(leader.address if leader else None)

    async def publish(self, value: bytes) -> None:
        there = await self.writer.read(KEY)
        await self.writer.commit([Put(KEY, value) if there else Create(KEY, value)])
        await asyncio.sleep(1)


@asynccontextmanager
async def new_harness() -> AsyncIterator[Harness]:
    async with TaskScope("harness") as scope:
        harness = Harness(scope)
        await asyncio.sleep(1)
        yield harness


def test_each_change_of_the_leader_is_reported_once():
    """Writes that change nothing are not reported (LEAD-18)."""

    async def test() -> None:
        async with new_harness() as harness:
            assert harness.reported == [None]
            await harness.publish(encode(address("one")))
            await harness.publish(encode(address("one")))
            assert harness.reported == [None, "one"]
            await harness.publish(encode(address("one", epoch=2)))
            assert harness.reported == [None, "one", "one"]
            await harness.writer.commit([Delete(KEY)])
            await asyncio.sleep(1)
            assert harness.reported == [None, "one", "one", None]
            assert harness.retrieval.leader is None

    run_virtual(test)


def test_a_suspended_listener_knows_no_leader_until_it_is_reconnected():
    """The leader may have changed unnoticed, so the listener reports none (LEAD-19)."""

    async def test() -> None:
        async with new_harness() as harness:
            await harness.publish(encode(address("one")))
            harness.coordination.suspend(harness.session)
            await asyncio.sleep(1)
            assert harness.reported == [None, "one", None]
            harness.coordination.resume(harness.session)
            await asyncio.sleep(1)
            assert harness.reported == [None, "one", None, "one"]

    run_virtual(test)


def test_a_listener_that_tolerates_suspensions_knows_the_leader_while_the_session_lasts():
    """The leader is forgotten when the session may have expired (LEAD-15)."""

    async def test() -> None:
        async with new_harness() as harness:
            harness.coordination.tolerates_suspension = True
            harness.coordination.session_timeout = 10
            await harness.publish(encode(address("one")))
            harness.coordination.suspend(harness.session)
            await asyncio.sleep(9)
            harness.coordination.resume(harness.session)
            await asyncio.sleep(5)
            assert harness.reported == [None, "one"]
            harness.coordination.suspend(harness.session)
            await asyncio.sleep(9.9)
            assert harness.reported == [None, "one"]
            await asyncio.sleep(0.2)
            assert harness.reported == [None, "one", None]

    run_virtual(test)


def test_a_leader_that_changed_during_a_suspension_is_reported_after_reconnection():
    """The previous leader is not reported again (LEAD-19)."""

    async def test() -> None:
        async with new_harness() as harness:
            await harness.publish(encode(address("one")))
            harness.coordination.suspend(harness.session)
            await harness.publish(encode(address("two")))
            harness.coordination.resume(harness.session)
            await asyncio.sleep(1)
            assert harness.reported == [None, "one", None, "two"]

    run_virtual(test)


def test_a_listener_whose_session_is_over_knows_no_leader():
    """A listener whose session is over cannot learn of later leaders (X-LEAD-08)."""

    async def test() -> None:
        async with new_harness() as harness:
            await harness.publish(encode(address("one")))
            harness.coordination.expire(harness.session)
            await asyncio.sleep(1)
            assert harness.reported == [None, "one", None]
            assert harness.error is not None

    run_virtual(test)


def test_an_unreadable_address_counts_as_no_leader():
    async def test() -> None:
        async with new_harness() as harness:
            await harness.publish(encode(address("one")))
            await harness.publish(b"rubbish")
            await harness.publish(encode(address("two")))
            assert harness.reported == [None, "one", None, "two"]

    run_virtual(test)


def test_a_caller_can_wait_for_a_leader():
    async def test() -> None:
        async with new_harness() as harness:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(100):
                    await harness.retrieval.wait_for_leader()
            leadership = await seize_leadership(harness.writer, ids=Ids(random.Random(1)))
            await leadership.publish("here")
            leader = await harness.retrieval.wait_for_leader()
            assert (leader.address, leader.token) == ("here", leadership.token)

    run_virtual(test)

"""Which recorded shutdown of a cluster applies to a process (ENTRY-04)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from stoker.aio.scope import TaskScope
from stoker.core.states import ApplicationStatus
from stoker.ha import keys
from stoker.ha.coordinator import Create, Put
from stoker.ha.memory import MemoryCoordination, MemoryCoordinator
from stoker.ha.record import encode
from stoker.ha.stores.shutdowns import ShutdownFollower, ShutdownRecord, ShutdownStage
from stoker.testing.virtual_time import run_virtual


def shutdown_record(nonce: str, stage: ShutdownStage) -> bytes:
    return encode(
        ShutdownRecord(nonce=nonce, status=ApplicationStatus.SUCCEEDED, at=1, stage=stage)
    )


@dataclass
class World:
    """A process that follows the shutdown record, and a leader that writes it."""

    coordination: MemoryCoordination
    leader: MemoryCoordinator
    session: MemoryCoordinator
    """Session of the process that follows the shutdown record."""
    follower: ShutdownFollower


Scenario = Callable[[World], Awaitable[None]]


def follow(scenario: Scenario, *, before: bytes | None = None, is_late: bool = False) -> None:
    async def main() -> None:
        coordination = MemoryCoordination(session_timeout=4)
        writer, reader = coordination.session(), coordination.session(auto_renewing=True)
        if is_late:
            coordination.delay_reads(reader)
        if before is not None:
            await writer.commit([Create(keys.SHUTDOWN, before)])
        follower = ShutdownFollower()
        async with TaskScope("process") as scope:
            scope.spawn("follower", follower.run(reader))
            await asyncio.sleep(1)
            await scenario(World(coordination, writer, reader, follower))

    run_virtual(main)


def test_a_shutdown_that_was_complete_at_the_start_does_not_end_the_process() -> None:
    async def scenario(world: World) -> None:
        assert not world.follower.over.is_set()
        await world.leader.commit(
            [Put(keys.SHUTDOWN, shutdown_record("two", ShutdownStage.ENDING))]
        )
        await asyncio.sleep(1)
        assert not world.follower.over.is_set(), "the shutdown still waits for its jobs to end"
        await world.leader.commit([Put(keys.SHUTDOWN, shutdown_record("two", ShutdownStage.OVER))])
        await asyncio.sleep(1)
        assert world.follower.over.is_set()
        assert world.follower.last is not None
        assert world.follower.last.nonce == "two"

    for is_late in (False, True):
        follow(scenario, before=shutdown_record("one", ShutdownStage.OVER), is_late=is_late)


def test_a_disconnected_process_learns_of_a_shutdown_after_reconnection() -> None:
    async def scenario(world: World) -> None:
        world.coordination.suspend(world.session)
        await asyncio.sleep(60)
        await world.leader.commit(
            [Create(keys.SHUTDOWN, shutdown_record("one", ShutdownStage.OVER))]
        )
        await asyncio.sleep(1)
        assert not world.follower.over.is_set()
        world.coordination.resume(world.session)
        await asyncio.sleep(5)
        assert world.follower.over.is_set()

    follow(scenario)


def test_an_unreadable_shutdown_record_does_not_end_a_process() -> None:
    async def scenario(world: World) -> None:
        await world.leader.commit([Create(keys.SHUTDOWN, b"\x00")])
        await asyncio.sleep(1)
        assert not world.follower.over.is_set()

    follow(scenario)

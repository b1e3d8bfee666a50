"""A child process that is started again when it died, and replaced when it is old."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta

import pytest

from stoker.core.errors import StartupFailed
from stoker.core.options import ByteSize
from stoker.engine.connect.recycling import should_recycle
from stoker.engine.connect.supervised import Supervised
from stoker.engine.contract import EngineState
from stoker.engine.options import EngineOptions
from stoker.osproc.exit import ProcessExit
from stoker.testing.virtual_time import run_virtual


@dataclass(eq=False)
class Child:
    number: int
    died: "asyncio.Task[ProcessExit]"
    end: "asyncio.Future[ProcessExit]"


class Nursery:
    def __init__(self, failing: frozenset[int] = frozenset()) -> None:
        self.started = 0
        self.living: list[int] = []
        self.failing = failing
        self.at_death: Callable[[], object] = lambda: None
        """Called before the keeper hears of it."""

    @asynccontextmanager
    async def start(self) -> AsyncIterator[Child]:
        self.started += 1
        number = self.started
        await asyncio.sleep(5)
        if number in self.failing:
            raise StartupFailed(f"child {number} does not start")
        end: asyncio.Future[ProcessExit] = asyncio.get_running_loop().create_future()

        async def death() -> ProcessExit:
            return await end

        died = asyncio.create_task(death())
        died.add_done_callback(lambda _: self.at_death())
        self.living.append(number)
        try:
            yield Child(number, died, end)
        finally:
            self.living.remove(number)
            died.cancel()


Story = Callable[[Supervised[Child], Nursery], Awaitable[None]]


def play(story: Story, failing: frozenset[int] = frozenset()) -> None:
    async def main() -> None:
        nursery = Nursery(failing)
        supervised = Supervised(
            "the child",
            nursery.start,
            restart_delay=timedelta(seconds=1),
            max_restart_delay=timedelta(seconds=30),
        )
        running = asyncio.create_task(supervised.run())
        try:
            await story(supervised, nursery)
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
        assert nursery.living == [], "nothing outlives its keeper"

    run_virtual(main)


def test_a_dead_process_is_restarted() -> None:
    async def story(supervised: Supervised[Child], nursery: Nursery) -> None:
        assert supervised.state is EngineState.STARTING
        first = await supervised.get()
        first.end.set_result(ProcessExit(code=-9))
        await asyncio.sleep(0.1)
        assert supervised.state is EngineState.RESTARTING
        assert (await supervised.get()).number == 2
        assert nursery.living == [2]

    play(story)


def test_a_process_that_has_just_died_is_not_handed_out() -> None:
    async def story(supervised: Supervised[Child], nursery: Nursery) -> None:
        asking: list[asyncio.Task[Child]] = []
        nursery.at_death = lambda: asking.append(asyncio.create_task(supervised.get()))
        (await supervised.get()).end.set_result(ProcessExit(code=-9))
        await asyncio.sleep(0.1)
        nursery.at_death = lambda: None
        assert (await asking[0]).number == 2

    play(story)


def test_a_process_that_never_starts_is_broken_with_the_reason() -> None:
    async def story(supervised: Supervised[Child], nursery: Nursery) -> None:
        with pytest.raises(StartupFailed, match="child 3 does not start"):
            await supervised.get()
        assert supervised.state is EngineState.BROKEN

    play(story, frozenset({1, 2, 3}))


def test_the_old_process_serves_until_its_successor_is_up_and_lives_until_its_release() -> None:
    async def story(supervised: Supervised[Child], nursery: Nursery) -> None:
        old = await supervised.get()
        supervised.release(old)
        await asyncio.sleep(1)
        assert nursery.living == [1], "the current one is never let go"
        supervised.replace()
        await asyncio.sleep(1)
        assert supervised.current is old
        await supervised.wait_until_replaced()
        assert (await supervised.get()).number == 2
        assert nursery.living == [1, 2]
        assert not supervised.is_released(old)
        supervised.release(old)
        assert supervised.is_released(old)
        await asyncio.sleep(1)
        assert nursery.living == [2]

    play(story)


def test_a_successor_that_does_not_start_changes_nothing() -> None:
    async def story(supervised: Supervised[Child], nursery: Nursery) -> None:
        old = await supervised.get()
        supervised.replace()
        await supervised.wait_until_replaced()
        assert supervised.current is old
        supervised.replace()
        await supervised.wait_until_replaced()
        assert (await supervised.get()).number == 3

    play(story, frozenset({2}))


def test_the_death_of_a_replaced_process_has_no_effect() -> None:
    async def story(supervised: Supervised[Child], nursery: Nursery) -> None:
        old = await supervised.get()
        supervised.replace()
        await supervised.wait_until_replaced()
        old.end.set_result(ProcessExit(code=-9))
        await asyncio.sleep(60)
        assert (await supervised.get()).number == 2
        assert nursery.started == 2

    play(story)


def test_a_server_is_recycled_for_its_tasks_or_its_memory() -> None:
    assert not should_recycle(EngineOptions(), tasks=10**6, memory=2**40)
    assert should_recycle(EngineOptions(recycle_after_tasks=3), tasks=3, memory=0)
    assert not should_recycle(EngineOptions(recycle_after_tasks=3), tasks=2, memory=2**40)
    assert should_recycle(EngineOptions(recycle_at_memory=ByteSize(100)), tasks=0, memory=100)

"""A child process that is restarted when it dies and replaced when it is old."""

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


class Children:
    def __init__(
        self, failing: frozenset[int] = frozenset(), error: type[Exception] = StartupFailed
    ) -> None:
        self.started = 0
        self.living: list[int] = []
        self.failing = failing
        self.error = error
        self.at_death: Callable[[], object] = lambda: None
        """Called at the death of a child, before the supervisor notices it."""

    @asynccontextmanager
    async def start(self) -> AsyncIterator[Child]:
        self.started += 1
        number = self.started
        await asyncio.sleep(5)
        if number in self.failing:
            raise self.error(f"child {number} does not start")
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


Scenario = Callable[[Supervised[Child], Children], Awaitable[None]]


def run_scenario(
    scenario: Scenario,
    failing: frozenset[int] = frozenset(),
    error: type[Exception] = StartupFailed,
) -> None:
    async def main() -> None:
        children = Children(failing, error)
        supervised = Supervised(
            "the child",
            children.start,
            restart_delay=timedelta(seconds=1),
            max_restart_delay=timedelta(seconds=30),
        )
        running = asyncio.create_task(supervised.run())
        try:
            await scenario(supervised, children)
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
        assert children.living == [], "no child outlives its supervisor"

    run_virtual(main)


def test_a_dead_process_is_restarted() -> None:
    async def scenario(supervised: Supervised[Child], children: Children) -> None:
        assert supervised.state is EngineState.STARTING
        first = await supervised.get()
        first.end.set_result(ProcessExit(code=-9))
        await asyncio.sleep(0.1)
        assert supervised.state is EngineState.RESTARTING
        assert (await supervised.get()).number == 2
        assert children.living == [2]

    run_scenario(scenario)


def test_a_process_that_has_just_died_is_not_returned() -> None:
    async def scenario(supervised: Supervised[Child], children: Children) -> None:
        getting: list[asyncio.Task[Child]] = []
        children.at_death = lambda: getting.append(asyncio.create_task(supervised.get()))
        (await supervised.get()).end.set_result(ProcessExit(code=-9))
        await asyncio.sleep(0.1)
        children.at_death = lambda: None
        assert (await getting[0]).number == 2

    run_scenario(scenario)


@pytest.mark.parametrize("error", [StartupFailed, OSError])
def test_a_start_that_fails_is_tried_again(error: type[Exception]) -> None:
    async def scenario(supervised: Supervised[Child], children: Children) -> None:
        assert (await supervised.get()).number == 2

    run_scenario(scenario, frozenset({1}), error)


@pytest.mark.parametrize("error", [StartupFailed, OSError])
def test_a_process_that_never_starts_is_broken_with_the_reason(error: type[Exception]) -> None:
    async def scenario(supervised: Supervised[Child], children: Children) -> None:
        with pytest.raises(StartupFailed, match="child 3 does not start"):
            await supervised.get()
        assert supervised.state is EngineState.BROKEN

    run_scenario(scenario, frozenset({1, 2, 3}), error)


def test_the_old_process_serves_until_its_successor_is_up_and_lives_until_its_release() -> None:
    async def scenario(supervised: Supervised[Child], children: Children) -> None:
        old = await supervised.get()
        supervised.release(old)
        await asyncio.sleep(1)
        assert children.living == [1], "the current process is never released"
        supervised.replace()
        await asyncio.sleep(1)
        assert supervised.current is old
        await supervised.wait_until_replaced()
        assert (await supervised.get()).number == 2
        assert children.living == [1, 2]
        assert not supervised.is_released(old)
        supervised.release(old)
        assert supervised.is_released(old)
        await asyncio.sleep(1)
        assert children.living == [2]

    run_scenario(scenario)


def test_a_successor_that_does_not_start_changes_nothing() -> None:
    async def scenario(supervised: Supervised[Child], children: Children) -> None:
        old = await supervised.get()
        supervised.replace()
        await supervised.wait_until_replaced()
        assert supervised.current is old
        supervised.replace()
        await supervised.wait_until_replaced()
        assert (await supervised.get()).number == 3

    run_scenario(scenario, frozenset({2}))


def test_the_death_of_a_replaced_process_has_no_effect() -> None:
    async def scenario(supervised: Supervised[Child], children: Children) -> None:
        old = await supervised.get()
        supervised.replace()
        await supervised.wait_until_replaced()
        old.end.set_result(ProcessExit(code=-9))
        await asyncio.sleep(60)
        assert (await supervised.get()).number == 2
        assert children.started == 2

    run_scenario(scenario)


def test_a_server_is_recycled_for_its_tasks_or_its_memory() -> None:
    assert not should_recycle(EngineOptions(), tasks=10**6, memory=2**40)
    assert should_recycle(EngineOptions(recycle_after_tasks=3), tasks=3, memory=0)
    assert not should_recycle(EngineOptions(recycle_after_tasks=3), tasks=2, memory=2**40)
    assert should_recycle(EngineOptions(recycle_at_memory=ByteSize(100)), tasks=0, memory=100)

"""The event loop on virtual time, and what it makes of tasks that never end."""

import asyncio
import time
from typing import cast

import pytest

from stoker.aio.scope import TaskScope
from stoker.testing.virtual_time import (
    SIMULATION_EPOCH_MS,
    Deadlock,
    LeakedTasks,
    Livelock,
    UnhandledFailure,
    VirtualTimeLoop,
    run_virtual,
    running_process,
    virtual_random,
    virtual_wall_clock,
)


def test_a_day_of_sleep_takes_no_real_time():
    async def sleep_long():
        await asyncio.sleep(24 * 3600 * 3)
        return asyncio.get_running_loop().time()

    began = time.monotonic()
    assert run_virtual(sleep_long, start=5.0) == 24 * 3600 * 3 + 5
    assert time.monotonic() - began < 1


def test_timers_fire_in_the_order_of_their_times():
    order = []

    async def after(delay):
        await asyncio.sleep(delay)
        order.append(delay)

    async def main():
        await asyncio.gather(*(after(delay) for delay in (3.0, 0.1, 2.0, 0.2)))

    run_virtual(main())
    assert order == [0.1, 0.2, 2.0, 3.0]


def test_a_deadlock_is_raised_with_the_name_and_place_of_each_waiting_task():
    async def wait_for_ever():
        await asyncio.Event().wait()

    async def main():
        await asyncio.create_task(wait_for_ever(), name="the-sleeper")

    with pytest.raises(Deadlock, match=r"the-sleeper waits at .*locks\.py") as caught:
        run_virtual(main)
    assert "main waits at" in str(caught.value)


def test_a_task_left_behind_fails_the_run():
    ended = []

    async def linger():
        try:
            await asyncio.sleep(1)
        finally:
            ended.append(True)

    async def main():
        main.task = asyncio.create_task(linger(), name="lingerer")
        await asyncio.sleep(0)

    with pytest.raises(LeakedTasks, match="lingerer"):
        run_virtual(main)
    assert ended


def test_an_unretrieved_task_failure_fails_the_run():
    async def main():
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    with pytest.raises(UnhandledFailure) as caught:
        run_virtual(main)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_the_seed_repeats_the_run_and_is_printed_on_failure():
    async def draw():
        return virtual_random().random()

    async def fail():
        raise ValueError("no")

    assert run_virtual(draw, seed=7) == run_virtual(draw, seed=7) != run_virtual(draw, seed=8)
    with pytest.raises(ValueError) as caught:
        run_virtual(fail, seed=7)
    assert caught.value.__notes__ == ["seed=7"]


def test_the_wall_clock_passes_with_the_loop():
    async def main():
        clock = virtual_wall_clock()
        await asyncio.sleep(1.5)
        return clock()

    assert run_virtual(main) == SIMULATION_EPOCH_MS + 1500


def test_threads_are_refused():
    async def main():
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="no threads"):
        run_virtual(main)


def test_a_spinning_task_is_detected():
    async def spin():
        for _ in range(10**9):
            await asyncio.sleep(0)

    with pytest.raises(Livelock, match="main waits at"):
        run_virtual(spin)


def test_a_frozen_process_misses_its_turns_and_runs_them_all_when_it_wakes_up():
    seen = []

    async def tick(name):
        running_process.set(name)
        while True:
            await asyncio.sleep(1)
            seen.append((name, asyncio.get_running_loop().time()))

    async def main():
        loop = cast(VirtualTimeLoop, asyncio.get_running_loop())
        async with TaskScope("processes") as scope:
            scope.spawn("a", tick("a"))
            scope.spawn("b", tick("b"))
            await asyncio.sleep(1.5)
            loop.freeze("a")
            await asyncio.sleep(2)
            assert loop.is_frozen("a")
            loop.thaw("a")
            await asyncio.sleep(1.2)

    run_virtual(main)
    assert [at for name, at in seen if name == "a"] == [1, 3.5, 4.5]
    assert [at for name, at in seen if name == "b"] == [1, 2, 3, 4]


def test_a_timer_cancelled_at_the_moment_of_waking_does_not_run():
    ran = []

    async def main():
        loop = cast(VirtualTimeLoop, asyncio.get_running_loop())
        running_process.set("a")
        second = loop.call_later(2, ran.append, "second")
        loop.call_later(1, second.cancel)
        running_process.set("main")
        loop.freeze("a")
        await asyncio.sleep(5)
        loop.thaw("a")
        await asyncio.sleep(1)

    run_virtual(main)
    assert ran == []

import asyncio
import threading

import pytest

from stoker.aio.threads import BlockingThread, LimitedThreads


async def test_calls_run_in_order_on_one_thread_that_ends_with_close():
    order = []

    def note(number):
        order.append(number)
        return threading.current_thread()

    thread = BlockingThread("records")
    used = await asyncio.gather(*(thread.run(note, number) for number in range(20)))
    assert order == list(range(20))
    assert len(set(used)) == 1
    assert used[0] is not threading.current_thread()
    assert not used[0].daemon
    await thread.close()
    await thread.close()
    assert not used[0].is_alive()
    with pytest.raises(RuntimeError, match="records is closed"):
        await thread.run(note, 1)


async def test_an_error_reaches_its_waiter_and_affects_no_later_call():
    async with BlockingThread("records") as thread:
        with pytest.raises(ZeroDivisionError):
            await thread.run(lambda: 1 / 0)
        assert await thread.run(lambda: 1) == 1


async def test_a_call_whose_waiter_left_before_it_began_is_skipped():
    gate, ran = threading.Event(), []
    async with BlockingThread("records") as thread:
        first = asyncio.create_task(thread.run(gate.wait))
        second = asyncio.create_task(thread.run(ran.append, 2))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        gate.set()
        await first
    assert ran == []


async def test_only_so_many_calls_run_at_once_and_the_loop_goes_on() -> None:
    threads = LimitedThreads("few", limit=2)
    may_end = threading.Event()
    began: list[str] = []
    both = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang() -> None:
        began.append(threading.current_thread().name)
        if len(began) == 2:
            loop.call_soon_threadsafe(both.set)
        may_end.wait()

    calls = [asyncio.create_task(threads.run(hang)) for _ in range(5)]
    await both.wait()
    # A common thread is free, whatever hangs here.
    assert await asyncio.to_thread(lambda: 7) == 7
    assert began == ["few", "few"]
    calls[4].cancel()
    may_end.set()
    await asyncio.gather(*calls[:4])
    assert len(began) == 4, "the one that was cancelled while it waited never began"


async def test_a_cancelled_call_keeps_its_place_until_it_ends() -> None:
    threads = LimitedThreads("one", limit=1)
    may_end, has_begun = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang() -> None:
        loop.call_soon_threadsafe(has_begun.set)
        may_end.wait()

    first = asyncio.create_task(threads.run(hang))
    await has_begun.wait()
    first.cancel()
    await asyncio.wait([first])
    second = asyncio.create_task(threads.run(lambda: "done"))
    await asyncio.to_thread(lambda: None)
    assert not second.done()
    may_end.set()
    assert await second == "done"


async def test_the_caller_gets_the_error_of_the_call() -> None:
    def fail() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        await LimitedThreads("one", limit=1).run(fail)


def test_each_loop_has_its_own_places() -> None:
    threads = LimitedThreads("one", limit=1)

    async def run_two() -> list[int]:
        return await asyncio.gather(threads.run(lambda: 1), threads.run(lambda: 2))

    for _ in range(2):
        assert asyncio.run(run_two()) == [1, 2]

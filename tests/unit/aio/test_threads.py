import asyncio
import threading

import pytest

from stoker.aio.threads import BlockingThread


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

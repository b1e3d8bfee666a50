"""Work that stops when something else has happened."""

import asyncio

import pytest

from stoker.aio.race import StoppedFirst, run_unless
from stoker.testing.virtual_time import run_virtual


async def work_for(seconds, ended):
    try:
        await asyncio.sleep(seconds)
        return "done"
    finally:
        ended.append(asyncio.get_running_loop().time())


def test_work_that_ends_first_gives_its_result():
    async def main():
        stop = asyncio.create_task(asyncio.sleep(2))
        assert await run_unless(stop, work_for(1, [])) == "done"
        assert not stop.cancelled()
        await stop

    run_virtual(main)


def test_the_task_of_the_work_is_named_after_it():
    async def name_of_task():
        return asyncio.current_task().get_name()

    async def main():
        stop = asyncio.get_running_loop().create_future()
        assert (await run_unless(stop, name_of_task())).endswith("name_of_task")

    run_virtual(main)


def test_work_that_is_stopped_has_ended_before_the_error_is_raised():
    async def main():
        ended = []
        with pytest.raises(StoppedFirst):
            await run_unless(asyncio.create_task(asyncio.sleep(1)), work_for(2, ended))
        assert ended == [1]

    run_virtual(main)


def test_a_cancelled_caller_leaves_no_work_behind():
    async def main():
        ended = []
        stop = asyncio.get_running_loop().create_future()
        caller = asyncio.create_task(run_unless(stop, work_for(9, ended)))
        await asyncio.sleep(1)
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        assert caller.cancelled()
        assert ended == [1]
        assert not stop.cancelled()

    run_virtual(main)

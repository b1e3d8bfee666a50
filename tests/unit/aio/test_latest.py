import asyncio

from stoker.aio.latest import Latest
from stoker.testing.virtual_time import run_virtual


def test_a_waiter_gets_the_value_that_differs_from_what_it_knew():
    async def main():
        leader = Latest("a")
        assert await leader.wait_for_change("b") == "a"
        waiters = [asyncio.create_task(leader.wait_for_change("a")) for _ in range(3)]
        await asyncio.sleep(1)
        leader.set("a")
        await asyncio.sleep(1)
        assert not any(waiter.done() for waiter in waiters)
        leader.set("c")
        assert await asyncio.gather(*waiters) == ["c"] * 3
        assert leader.value == "c"

    run_virtual(main)


def test_only_the_newest_of_several_values_is_seen():
    async def main():
        number = Latest(0)
        waiter = asyncio.create_task(number.wait_for_change(0))
        await asyncio.sleep(1)
        number.set(1)
        number.set(2)
        assert await waiter == 2

    run_virtual(main)


def test_a_predicate_is_awaited_and_a_cancelled_waiter_is_forgotten():
    async def main():
        number = Latest(0)
        waiter = asyncio.create_task(number.wait_until(lambda value: value > 2))
        quitter = asyncio.create_task(number.wait_until(lambda value: value > 9))
        await asyncio.sleep(1)
        quitter.cancel()
        await asyncio.sleep(1)
        for value in (1, 2, 3):
            number.set(value)
            await asyncio.sleep(1)
        assert await waiter == 3
        assert not number._waiters

    run_virtual(main)

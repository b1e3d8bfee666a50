"""Programs are compiled a few at a time."""

import asyncio

import pytest

from builders import virtual
from stoker.core.errors import Unavailable
from stoker.rest.programs.turns import CompilationTurns


@virtual
async def test_programs_are_compiled_a_few_at_a_time_and_in_order() -> None:
    turns, current, begun = CompilationTurns(), 0, list[int]()

    async def compile_one(number: int) -> None:
        nonlocal current
        async with turns.turn(2):
            current += 1
            begun.append(number)
            assert current <= 2
            await asyncio.sleep(1)
            current -= 1

    await asyncio.gather(*(compile_one(number) for number in range(10)))
    assert begun == list(range(10))


@virtual
async def test_no_more_programs_than_the_queue_holds_wait() -> None:
    turns = CompilationTurns()
    done = asyncio.Event()

    async def compile_one() -> None:
        async with turns.turn(1):
            await done.wait()

    waiting = [asyncio.create_task(compile_one()) for _ in range(33)]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="32 wait for that; try again"):
        await compile_one()
    waiting[5].cancel()
    await asyncio.sleep(0)
    late = asyncio.create_task(compile_one())
    done.set()
    outcomes = await asyncio.gather(*waiting, late, return_exceptions=True)
    assert sum(outcome is None for outcome in outcomes) == 33

"""From the pipes of a process to its logs."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

import pytest
import uvloop

from stoker.osproc.log_pump import LogPump
from stoker.osproc.pipe_end import PipeEnd


@asynccontextmanager
async def pumped(log: Path, limit: int = 1 << 20) -> AsyncIterator[tuple[LogPump, IO[bytes]]]:
    """The pump, and the end that a process writes to."""
    reading, writing = os.pipe()
    pump = LogPump(PipeEnd(reading), log, limit)
    with os.fdopen(writing, "wb", 0) as process:
        yield pump, process
    await pump.wait_until_over()


async def test_what_was_written_is_in_the_log_when_it_has_caught_up(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with pumped(log) as (pump, process):
        await pump.catch_up()
        for size in (1, 1000, 60_000):
            before = log.stat().st_size
            process.write(b"x" * size)
            await pump.catch_up()
            assert log.stat().st_size == before + size


async def test_what_comes_after_a_task_is_not_in_its_log(tmp_path: Path) -> None:
    async with pumped(tmp_path / "spares") as (pump, process):
        for task in ("one", "other"):
            pump.carry_to(tmp_path / task)
            process.write(task.encode())
            await pump.catch_up()
            pump.carry_aside()
        process.write(b"nobody's")
    written = [(tmp_path / name).read_text() for name in ("one", "other", "spares")]
    assert written == ["one", "other", "nobody's"]


async def test_it_catches_up_with_one_that_is_over(tmp_path: Path) -> None:
    async with pumped(tmp_path / "log") as (pump, process):
        process.write(b"last words")
    await pump.catch_up()
    assert (tmp_path / "log").read_bytes() == b"last words"


async def test_the_end_of_what_is_too_long_is_in_the_log_when_it_has_caught_up(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    async with pumped(log, limit=10) as (pump, process):
        process.write(b"x" * 20 + b"the end")
        await pump.catch_up()
        assert log.read_bytes().endswith(b"the end")
        await pump.catch_up()
        process.write(b", and more")
    assert log.read_bytes().endswith(b"the end, and more")


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_it_can_be_asked_at_every_moment_of_the_process_s_end(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """The pipe is closed some turns of the loop before the log is."""

    async def ask_at_every_turn() -> None:
        async with pumped(tmp_path / "log") as (pump, process):
            process.write(b"last words")
            process.close()
            questions = []
            while len(questions) < 20:
                questions.append(asyncio.create_task(pump.catch_up()))
                await asyncio.sleep(0)
            await asyncio.gather(*questions)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(ask_at_every_turn())
    assert (tmp_path / "log").read_bytes() == b"last words"


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_nothing_stays_open_for_the_garbage_collector(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Descriptors that it closes may be somebody else's by then."""

    async def many() -> set[str]:
        before = set(os.listdir("/proc/self/fd"))
        for number in range(30):
            async with pumped(tmp_path / str(number)) as (_, process):
                process.write(b"x" * number)
        return set(os.listdir("/proc/self/fd")) - before

    gc.disable()
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            # What the loop itself opens, it opens at its first look.
            runner.run(many())
            assert runner.run(many()) == set()
    finally:
        gc.enable()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_the_number_of_a_pipe_that_is_over_can_be_anybody_s(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def story() -> None:
        async with pumped(tmp_path / "log"):
            pass
        # Takes the number that has just become free.
        with (tmp_path / "other").open("wb", buffering=0) as other:
            gc.collect()
            for _ in range(5):
                await asyncio.sleep(0)
            other.write(b"still open")

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(story())

"""From the pipes of a process to its logs."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from stoker.engine.log_pump import LogPump


@asynccontextmanager
async def pumped(log: Path, limit: int = 1 << 20) -> AsyncIterator[tuple[LogPump, int]]:
    """The pump, and the end that a process writes to."""
    reading, writing = os.pipe()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", 0)
    )
    pump = LogPump(reader, log, limit, reading)
    try:
        yield pump, writing
    finally:
        os.close(writing)
        await pump.wait_until_over()


async def test_what_was_written_is_in_the_log_when_it_has_caught_up(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with pumped(log) as (pump, writing):
        await pump.catch_up()
        for size in (1, 1000, 60_000):
            before = log.stat().st_size
            os.write(writing, b"x" * size)
            await pump.catch_up()
            assert log.stat().st_size == before + size


async def test_it_catches_up_with_one_that_is_over(tmp_path: Path) -> None:
    async with pumped(tmp_path / "log") as (pump, writing):
        os.write(writing, b"last words")
    await pump.catch_up()
    assert (tmp_path / "log").read_bytes() == b"last words"


async def test_the_end_of_what_is_too_long_is_in_the_log_when_it_has_caught_up(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    async with pumped(log, limit=10) as (pump, writing):
        os.write(writing, b"x" * 20 + b"the end")
        await pump.catch_up()
        assert log.read_bytes().endswith(b"the end")
        await pump.catch_up()
        os.write(writing, b", and more")
    assert log.read_bytes().endswith(b"the end, and more")

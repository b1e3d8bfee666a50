"""The output of child processes in size-limited logs."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from stoker.osproc.captured_output import BoundedLog, LogPump, PipeReader, last_error_lines


@asynccontextmanager
async def pumped(log: Path, limit: int = 1 << 20) -> AsyncIterator[tuple[LogPump, IO[bytes]]]:
    """A pump, and the end of the pipe to which the process writes."""
    reading, writing = os.pipe()
    pump = LogPump(PipeReader(reading), log, limit)
    with os.fdopen(writing, "wb", 0) as process:
        yield pump, process
    await pump.wait_until_closed()


async def test_a_flush_puts_all_output_so_far_into_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with pumped(log) as (pump, process):
        await pump.flush_log()
        for size in (1, 1000, 60_000):
            before = log.stat().st_size
            process.write(b"x" * size)
            await pump.flush_log()
            assert log.stat().st_size == before + size


async def test_output_after_a_task_goes_to_the_default_log(tmp_path: Path) -> None:
    async with pumped(tmp_path / "spares") as (pump, process):
        for task in ("one", "other"):
            pump.redirect_to(tmp_path / task)
            process.write(task.encode())
            await pump.flush_log()
            pump.redirect_to_default()
        process.write(b"nobody's")
    written = [(tmp_path / name).read_text() for name in ("one", "other", "spares")]
    assert written == ["one", "other", "nobody's"]


async def test_a_flush_after_the_end_of_the_process_is_harmless(tmp_path: Path) -> None:
    async with pumped(tmp_path / "log") as (pump, process):
        process.write(b"last words")
    await pump.flush_log()
    assert (tmp_path / "log").read_bytes() == b"last words"


async def test_redirecting_after_the_end_of_the_process_touches_no_descriptor(
    tmp_path: Path,
) -> None:
    async with pumped(tmp_path / "log") as (pump, process):
        process.write(b"last words")
    reused = os.open(tmp_path, os.O_RDONLY)
    try:
        pump.redirect_to(tmp_path / "task")
        pump.redirect_to_default()
        os.fstat(reused)
    finally:
        os.close(reused)
    assert pump.last_words == "last words"


async def test_a_log_that_cannot_be_opened_leaves_the_present_one_in_use(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with pumped(tmp_path / "log") as (pump, process):
        with pytest.raises(OSError, match="file"):
            pump.redirect_to(tmp_path / "file" / "task")
        # This gets the number of a descriptor that was closed too early.
        reused = os.open(tmp_path / "innocent", os.O_RDWR | os.O_CREAT)
        try:
            process.write(b"output")
            await pump.flush_log()
            assert (tmp_path / "innocent").read_bytes() == b""
        finally:
            os.close(reused)
    assert (tmp_path / "log").read_bytes() == b"output"


async def test_a_flush_writes_the_end_of_output_that_is_too_long(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    async with pumped(log, limit=10) as (pump, process):
        process.write(b"x" * 20 + b"the end")
        await pump.flush_log()
        assert log.read_bytes().endswith(b"the end")
        await pump.flush_log()
        process.write(b", and more")
    assert log.read_bytes().endswith(b"the end, and more")


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_flush_is_possible_at_any_moment_while_the_process_ends(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """The pipe is closed some turns of the loop before the log is."""

    async def flush_at_every_turn() -> None:
        async with pumped(tmp_path / "log") as (pump, process):
            process.write(b"last words")
            process.close()
            flushes = []
            while len(flushes) < 20:
                flushes.append(asyncio.create_task(pump.flush_log()))
                await asyncio.sleep(0)
            await asyncio.gather(*flushes)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(flush_at_every_turn())
    assert (tmp_path / "log").read_bytes() == b"last words"


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_no_descriptor_is_left_for_the_garbage_collector(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """The garbage collector might close a descriptor that is already reused."""

    async def run_many() -> set[str]:
        before = set(os.listdir("/proc/self/fd"))
        for number in range(30):
            async with pumped(tmp_path / str(number)) as (_, process):
                process.write(b"x" * number)
        return set(os.listdir("/proc/self/fd")) - before

    gc.disable()
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            # The first run opens descriptors of the loop itself.
            runner.run(run_many())
            assert runner.run(run_many()) == set()
    finally:
        gc.enable()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_the_descriptor_of_a_closed_pipe_may_be_reused(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def scenario() -> None:
        async with pumped(tmp_path / "log"):
            pass
        # The new pipe gets the descriptor number that has just become free.
        with (tmp_path / "other").open("wb", buffering=0) as other:
            gc.collect()
            for _ in range(5):
                await asyncio.sleep(0)
            other.write(b"still open")

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())


writes = st.lists(st.binary(max_size=50), max_size=30)


def kept(pieces: list[bytes], limit: int, tail: int) -> bytes:
    log = BoundedLog(limit, tail)
    return b"".join(log.feed(piece) for piece in pieces) + log.finish()


@given(writes, st.integers(0, 100), st.integers(1, 100))
def test_output_within_the_limit_is_kept_unchanged(
    pieces: list[bytes], more: int, tail: int
) -> None:
    written = b"".join(pieces)
    assert kept(pieces, len(written) + more, tail) == written


@given(writes, st.integers(0, 200), st.integers(1, 100))
def test_output_beyond_the_limit_keeps_its_beginning_and_end(
    pieces: list[bytes], limit: int, tail: int
) -> None:
    written = b"".join(pieces)
    found = kept(pieces, limit, tail)
    assert found.startswith(written[:limit])
    if len(written) > limit:
        assert found.endswith(written[limit:][-tail:])
        assert b"this log is full" in found
        assert (b"left out" in found) == (len(written) > limit + tail)


@given(writes, st.integers(0, 200), st.integers(1, 100))
def test_a_log_exceeds_its_limit_by_no_more_than_its_tail_and_two_notes(
    pieces: list[bytes], limit: int, tail: int
) -> None:
    notes = 200
    assert len(kept(pieces, limit, tail)) <= limit + tail + notes


def test_the_last_lines_with_errors_are_preferred() -> None:
    assert last_error_lines("a\nb Error\nc\n") == "b Error"
    assert last_error_lines("a\nb\n") == "a | b"
    assert last_error_lines("") == "it said nothing"

"""From the pipes of a process to the logs of whoever it works for at the moment."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from stoker.osproc.bounded_log import BoundedLog
from stoker.osproc.pipe_end import PipeEnd

_CHUNK = 256 * 1024
_LAST_WORDS = 16 * 1024
_MANY_TURNS = 1000
_TURNS_TO_THE_LOG = 3


class LogPump:
    """Carries one stream. Before `carry_to`, what comes goes to the file of the spares."""

    def __init__(self, source: asyncio.StreamReader | PipeEnd, before: Path, limit: int) -> None:
        self._source = source
        self._before = before
        self._limit = limit
        self._log = BoundedLog(limit)
        self._file = _open(before)
        self._last = b""
        self._running = asyncio.create_task(self._run(), name=f"log {before.name}")

    @property
    def last_words(self) -> str:
        """The end of what came since `carry_to`."""
        return self._last.decode(errors="replace")

    def carry_to(self, path: Path) -> None:
        os.close(self._file)
        self._file = _open(path)
        self._log = BoundedLog(self._limit)
        self._last = b""

    def carry_aside(self) -> None:
        """As before: what it writes belongs to no task."""
        self.carry_to(self._before)

    async def catch_up(self) -> None:
        """What was written until now is in the log, the end of it too if the log is full.

        Of one that writes on and on, most of it.
        """
        for _ in range(_MANY_TURNS):
            if self._running.done() or not self._has_more:
                break
            await asyncio.sleep(0)
        # From the pipe to the reader, from there to the log: a turn of the loop each.
        for _ in range(_TURNS_TO_THE_LOG):
            await asyncio.sleep(0)
        if not self._running.done():
            # What does not fit on a full disk is lost.
            with suppress(OSError):
                os.write(self._file, self._log.finish())

    @property
    def _has_more(self) -> bool:
        return isinstance(self._source, PipeEnd) and self._source.has_more

    async def wait_until_over(self) -> None:
        """Everything that was written is in the log, which is closed."""
        await asyncio.wait([self._running])

    async def _run(self) -> None:
        try:
            while data := await self._source.read(_CHUNK):
                self._last = (self._last + data)[-_LAST_WORDS:]
                os.write(self._file, self._log.feed(data))
            os.write(self._file, self._log.finish())
        except OSError:
            # A full disk must not stop the process that writes: what it says is lost.
            while await self._source.read(_CHUNK):
                pass
        finally:
            os.close(self._file)
            if isinstance(self._source, PipeEnd):
                self._source.close()


def _open(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

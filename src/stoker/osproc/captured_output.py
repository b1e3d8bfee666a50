"""The output of child processes: read from their pipes, written to size-limited log files.

A runner or driver is started before anybody knows for which task, and may work for several. So a
`LogPump` reads each stream from the start and can be redirected to the log of the current task.
User code may print without end: `BoundedLog` keeps the beginning and the end.
"""

import asyncio
import fcntl
import os
import struct
import termios
from collections import deque
from contextlib import suppress
from pathlib import Path

from stoker.osproc.regular_file import open_regular_to_append

TAIL_BYTES = 64 * 1024
_CHUNK_BYTES = 256 * 1024
_LAST_WORDS_BYTES = 16 * 1024
_MOST_FLUSH_TURNS = 1000
_TURNS_FROM_PIPE_TO_LOG = 3


class BoundedLog:
    """Decides which bytes of an output to append to its log file.

    The first `limit` bytes are appended at once. After them, only the last `tail` bytes are kept
    until `finish` appends them. Bytes once appended never change, so a reader can continue from its
    last offset.
    """

    def __init__(self, limit: int, tail: int = TAIL_BYTES) -> None:
        self._room = limit
        self._tail: deque[bytes] = deque()
        self._tail_limit = tail
        self._held = 0
        self._dropped = 0
        self._full = False

    def feed(self, data: bytes) -> bytes:
        """Take new output; return what to append now."""
        head, rest = data[: self._room], data[self._room :]
        self._room -= len(head)
        if not rest:
            return head
        self._hold(rest)
        if self._full:
            return head
        self._full = True
        return head + b"\n[stoker: this log is full; only its end will follow]\n"

    def finish(self) -> bytes:
        """Return the withheld end of the output; call again if more output came afterwards."""
        note = f"[stoker: {self._dropped} bytes are left out here]\n" if self._dropped else ""
        end = note.encode() + b"".join(self._tail)
        self._tail.clear()
        self._held = self._dropped = 0
        return end

    def _hold(self, data: bytes) -> None:
        data, cut = data[-self._tail_limit :], max(0, len(data) - self._tail_limit)
        self._dropped += cut
        self._tail.append(data)
        self._held += len(data)
        while self._held > self._tail_limit:
            oldest = self._tail.popleft()
            excess = self._held - self._tail_limit
            if len(oldest) > excess:
                self._tail.appendleft(oldest[excess:])
            dropped = min(excess, len(oldest))
            self._held -= dropped
            self._dropped += dropped


class PipeReader:
    """Reads a pipe on the event loop. Owns the descriptor: nothing else may close it.

    This is not a transport of the loop, because uvloop leaves one open at the end of the pipe until
    the garbage collector finds it, and then closes the descriptor twice: in libuv and in the file
    object. In between, the number may already belong to another file.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    async def read(self, size: int) -> bytes:
        """Return what is available, at most `size` bytes; nothing at the end of the pipe."""
        while True:
            try:
                return os.read(self._descriptor, size)
            except BlockingIOError:
                await self._wait_until_readable()

    async def _wait_until_readable(self) -> None:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._descriptor, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._descriptor)

    @property
    def has_more(self) -> bool:
        """Whether the pipe holds bytes that have not been read."""
        (size,) = struct.unpack("i", fcntl.ioctl(self._descriptor, termios.FIONREAD, b"\0" * 4))
        return bool(size)

    def close(self) -> None:
        """Call once, when no read is pending."""
        os.close(self._descriptor)


class LogPump:
    """Copies one output stream to a log file, which can be changed while the process runs.

    Output that belongs to no task goes to the default log.
    """

    def __init__(
        self, source: asyncio.StreamReader | PipeReader, default_log: Path, limit: int
    ) -> None:
        self._source = source
        self._default_log = default_log
        self._limit = limit
        self._log = BoundedLog(limit)
        self._file = _open_log(default_log)
        self._last = b""
        self._running = asyncio.create_task(self._run(), name=f"log {default_log.name}")

    @property
    def last_words(self) -> str:
        """The end of the output since the last redirection."""
        return self._last.decode(errors="replace")

    def redirect_to(self, path: Path) -> None:
        """Write to another log from now on. Once the output has ended, this changes nothing.

        Raises OSError if the other log cannot be opened, and then keeps the present one.
        """
        if self._running.done():
            return
        other = _open_log(path)
        os.close(self._file)
        self._file = other
        self._log = BoundedLog(self._limit)
        self._last = b""

    def redirect_to_default(self) -> None:
        self.redirect_to(self._default_log)

    async def flush_log(self) -> None:
        """Copy what the process has written so far, including the withheld end of a full log.

        If the process never stops writing, this copies most of it and returns.
        """
        for _ in range(_MOST_FLUSH_TURNS):
            if self._running.done() or not self._has_more:
                break
            await asyncio.sleep(0)
        # Data takes a turn of the loop from the pipe to the reader and another one to the log.
        for _ in range(_TURNS_FROM_PIPE_TO_LOG):
            await asyncio.sleep(0)
        if not self._running.done():
            # On a full disk the output is lost.
            with suppress(OSError):
                os.write(self._file, self._log.finish())

    @property
    def _has_more(self) -> bool:
        return isinstance(self._source, PipeReader) and self._source.has_more

    async def wait_until_closed(self) -> None:
        """Return when the stream has ended and all of it is in the log."""
        await asyncio.wait([self._running])

    async def _run(self) -> None:
        try:
            while data := await self._source.read(_CHUNK_BYTES):
                self._last = (self._last + data)[-_LAST_WORDS_BYTES:]
                os.write(self._file, self._log.feed(data))
            os.write(self._file, self._log.finish())
        except OSError:
            # A full disk must not block the process that writes: drop its output.
            while await self._source.read(_CHUNK_BYTES):
                pass
        finally:
            os.close(self._file)
            if isinstance(self._source, PipeReader):
                self._source.close()


def last_error_lines(text: str, count: int = 3) -> str:
    """The last lines of a log that mention an error, or simply the last lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Exception" in line or "rror" in line]
    return " | ".join((errors or lines)[-count:]) or "it said nothing"


def _open_log(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    # The directory of a task belongs to its code, which may have put something else there.
    return open_regular_to_append(path, 0o600)

"""The task executor's end of the channel to a child process: a socket and two output streams."""

import asyncio
import socket
from contextlib import suppress
from pathlib import Path

from stoker.engine.protocol import FromRunner, Malformed, ToRunner, frame, receive
from stoker.engine.reports import checked
from stoker.osproc.captured_output import LogPump

_STREAM_LIMIT = 1 << 20


class ChildChannel:
    """Messages to and from a runner, janitor or driver, and its output.

    Subclasses end the process.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        output: tuple[LogPump, LogPump],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._stdout, self._stderr = output
        self._is_malformed = False

    async def send(self, message: ToRunner) -> None:
        # If the child is dead, `receive` reports it.
        with suppress(ConnectionError):
            self.post(message)
            await self._writer.drain()

    def post(self, message: ToRunner) -> None:
        """Send a small message without waiting."""
        self._writer.write(frame(message))

    async def receive(self) -> FromRunner | Malformed | None:
        """Return the next message, checked and cut to size; None when there will be no other.

        `Malformed` is the last one: user code in the child has written to the socket.
        """
        if self._is_malformed:
            return None
        message = await receive(self._reader)
        if message is not None and not isinstance(message, Malformed):
            message = checked(message)
        self._is_malformed = isinstance(message, Malformed)
        return message

    def end_input(self) -> None:
        """End `receive` with None for whoever waits for a message."""
        self._reader.feed_eof()

    def log_to(self, directory: Path) -> None:
        """Write the output to the logs of one task from now on."""
        self._stdout.redirect_to(directory / "stdout.log")
        self._stderr.redirect_to(directory / "stderr.log")

    def log_to_default(self) -> None:
        """Stop writing to the logs of the task, which is over."""
        self._stdout.redirect_to_default()
        self._stderr.redirect_to_default()

    async def flush_output(self) -> None:
        """Return when all output so far is in the logs."""
        await self._stdout.flush_log()
        await self._stderr.flush_log()

    async def close_channel(self) -> None:
        """Call after the end of the process; returns when all of its output is in the logs."""
        self._writer.close()
        await self._stdout.wait_until_closed()
        await self._stderr.wait_until_closed()


async def open_channel(end: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_unix_connection(sock=end, limit=_STREAM_LIMIT)

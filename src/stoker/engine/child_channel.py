"""A process that runs user code, as the task executor speaks with it: a socket and two streams."""

import asyncio
import socket
from contextlib import suppress
from pathlib import Path

from stoker.engine.protocol import FromRunner, ToRunner, frame, receive
from stoker.osproc.log_pump import LogPump

_STREAM_LIMIT = 1 << 20


class TalkingProcess:
    """What runners, janitors and drivers have in common; how they begin and end is their own."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        output: tuple[LogPump, LogPump],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._stdout, self._stderr = output

    async def send(self, message: ToRunner) -> None:
        # A process that is gone shows as the end of what it says.
        with suppress(ConnectionError):
            self.post(message)
            await self._writer.drain()

    def post(self, message: ToRunner) -> None:
        """A small message, for whose way nobody waits."""
        self._writer.write(frame(message))

    async def receive(self) -> FromRunner | None:
        return await receive(self._reader)

    def hear_no_more(self) -> None:
        """Whoever waits for it to say something learns that it will not."""
        self._reader.feed_eof()

    def log_to(self, directory: Path) -> None:
        """From now on, what it writes is the output of one task."""
        self._stdout.carry_to(directory / "stdout.log")
        self._stderr.carry_to(directory / "stderr.log")

    def log_aside(self) -> None:
        """The task is over, and its logs are somebody else's from now on."""
        self._stdout.carry_aside()
        self._stderr.carry_aside()

    async def output_caught_up(self) -> None:
        """What it wrote until now can be read in the logs."""
        await self._stdout.catch_up()
        await self._stderr.catch_up()

    async def hang_up(self) -> None:
        """After its end: returns when everything that it wrote is in the logs."""
        self._writer.close()
        await self._stdout.wait_until_over()
        await self._stderr.wait_until_over()


async def line_over(end: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_unix_connection(sock=end, limit=_STREAM_LIMIT)

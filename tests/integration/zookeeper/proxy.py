"""A loopback proxy between a client and a ZooKeeper server; it cuts connections on request."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum
from typing import Final

TRANSACTION: Final = 14
"""ZooKeeper's number for requests that are transactions."""


class Cut(Enum):
    """When the connection is cut, relative to the next transaction."""

    BEFORE_THE_SERVER_GETS_IT = "before"
    AFTER_THE_SERVER_ANSWERED = "after"


class Proxy:
    def __init__(self, server: str) -> None:
        host, _, port = server.partition(":")
        self._server = (host, int(port))
        self._open: set[asyncio.StreamWriter] = set()
        self._next_cut: Cut | None = None
        self._awaited_answer: int | None = None
        self._is_cut = False
        self.address = ""

    def cut_at_next_transaction(self, moment: Cut) -> None:
        """Cut all connections at the next transaction, and refuse new ones until `heal`."""
        self._next_cut = moment

    def cut(self) -> None:
        """Cut every connection, and refuse new ones."""
        self._is_cut = True
        for writer in list(self._open):
            writer.transport.abort()

    def heal(self) -> None:
        self._is_cut = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        to_client = writer
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            from_server, to_server = await asyncio.open_connection(*self._server)
            self._open |= {to_client, to_server}
            try:
                async with asyncio.TaskGroup() as directions:
                    directions.create_task(self._requests(reader, to_server))
                    directions.create_task(self._answers(from_server, to_client))
            except* (OSError, asyncio.IncompleteReadError):
                pass
            finally:
                self._open -= {to_client, to_server}
                to_server.transport.abort()
                to_client.transport.abort()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await _frame(reader))  # The request for a session has no header.
        while True:
            frame = await _frame(reader)
            number, kind = struct.unpack_from("!ii", frame, 4)
            if kind == TRANSACTION and self._next_cut is not None:
                moment, self._next_cut = self._next_cut, None
                if moment is Cut.BEFORE_THE_SERVER_GETS_IT:
                    self.cut()
                    return
                self._awaited_answer = number
            writer.write(frame)

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await _frame(reader))
        while True:
            frame = await _frame(reader)
            (number,) = struct.unpack_from("!i", frame, 4)
            if number == self._awaited_answer:
                self._awaited_answer = None
                self.cut()
                return
            writer.write(frame)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(struct.unpack("!i", size)[0])


@asynccontextmanager
async def proxy_to(server: str) -> AsyncIterator[Proxy]:
    proxy = Proxy(server)
    listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.address = "{}:{}".format(*listener.sockets[0].getsockname())
    try:
        yield proxy
    finally:
        listener.close()
        proxy.cut()
        await listener.wait_closed()

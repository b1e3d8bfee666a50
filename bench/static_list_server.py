"""A server that only sends one stored list of jobs: the cost of the bytes alone.

Fifty lists of four megabytes a second keep a small machine busy, whichever process sends them. No
master can slow down other work less than this server does, which has its response ready.
"""

import asyncio
import multiprocessing
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import cast

import uvloop

from bench.load_generator import ListRequests

_WARM_UP_REQUESTS = 10
"""The response to the last of these requests is stored, when the master is warm."""


class _StoredResponse(asyncio.Protocol):
    def __init__(self, response: bytes) -> None:
        self._response = response
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have all methods of asyncio.Transport, but are not derived from it.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        *requests, self._received = (self._received + data).split(b"\r\n\r\n")
        assert self._transport is not None
        for _ in requests:
            self._transport.write(self._response)


@contextmanager
def static_list_server(load: ListRequests) -> Iterator[ListRequests]:
    """Start a server with the master's current response; yields the same load for that server."""
    headers = {"accept-encoding": load.encoding}
    request = urllib.request.Request(f"{load.url}{load.path}", headers=headers)
    for _ in range(_WARM_UP_REQUESTS):
        with urllib.request.urlopen(request) as response:
            body = response.read()
        time.sleep(0.1)
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(body, there))
    process.start()
    there.close()
    try:
        yield replace(load, url=f"http://127.0.0.1:{here.recv()}")
    finally:
        here.close()
        process.kill()
        process.join()


def _serve(body: bytes, link: Connection) -> None:
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n"
    uvloop.run(_serve_forever(head.encode() + body, link))


async def _serve_forever(response: bytes, link: Connection) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _StoredResponse(response), "127.0.0.1", 0)
    link.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()

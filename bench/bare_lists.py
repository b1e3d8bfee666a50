"""The same list of jobs from a process that does nothing else: what its bytes alone cost.

Fifty lists of four megabytes a second keep a small machine busy, whoever sends them. What they do
to others beside a server that holds one answer ready and sends it, no master can do better.
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

from bench.steady_requests import Question

_UNTIL_SETTLED = 10
"""A master packs what it is asked for again and again."""


class _SendsOneAnswer(asyncio.Protocol):
    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._heard = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have all of its methods, and are not derived from it.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        *asked, self._heard = (self._heard + data).split(b"\r\n\r\n")
        assert self._transport is not None
        for _ in asked:
            self._transport.write(self._answer)


@contextmanager
def bare_server_of(question: Question) -> Iterator[Question]:
    """The question to ask there, whose answer is the one of the master as it is now."""
    headers = {"accept-encoding": question.encoding}
    request = urllib.request.Request(f"{question.url}{question.path}", headers=headers)
    for _ in range(_UNTIL_SETTLED):
        with urllib.request.urlopen(request) as response:
            body = response.read()
        time.sleep(0.1)
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(body, there))
    process.start()
    there.close()
    try:
        yield replace(question, url=f"http://127.0.0.1:{here.recv()}")
    finally:
        here.close()
        process.kill()
        process.join()


def _serve(body: bytes, link: Connection) -> None:
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n"
    uvloop.run(_serve_for_ever(head.encode() + body, link))


async def _serve_for_ever(answer: bytes, link: Connection) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _SendsOneAnswer(answer), "127.0.0.1", 0)
    link.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()

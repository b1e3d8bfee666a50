"""The task executor's side of the zygote, without one."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoker.engine.connect import zygote_client
from stoker.engine.connect.zygote_client import ForkedProcess, ZygoteClient
from stoker.engine.protocol import Exited, Forked, Ready, frame
from stoker.osproc.exit import ProcessExit


class Zygote:
    """Does nothing with what it is sent, and ends when it is asked to."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self.pid = os.getpid()
        self.ended = asyncio.Event()
        self.descriptors: list[int] = []

    async def wait(self) -> int:
        await self.ended.wait()
        return 0

    def take(self) -> int:
        """The runner's end of its line."""
        _, self.descriptors, _, _ = socket.recv_fds(self._control, 4096, 3)
        return self.descriptors[0]

    def tell(self, report: Forked | Exited) -> None:
        self._control.send(msgspec.msgpack.encode(report))


@asynccontextmanager
async def connected(log: Path) -> AsyncIterator[tuple[ZygoteClient, Zygote]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    with theirs:
        zygote = Zygote(theirs)
        process: Any = zygote
        client = ZygoteClient(process, ours, log, 1 << 20)
        try:
            yield client, zygote
        finally:
            zygote.ended.set()
            await client.close()
            for descriptor in zygote.descriptors:
                os.close(descriptor)


async def ended(client: ZygoteClient, zygote: Zygote) -> tuple[ForkedProcess, int]:
    """A runner whose end was told while somebody still holds its line, and its end of that."""
    process = await client.fork()
    line = zygote.take()
    zygote.tell(Exited(runner=1, pid=7, status=-9))
    assert await process.exited == ProcessExit(code=-9)
    return process, line


async def test_receiving_from_a_runner_ends_when_the_runner_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(zygote_client, "_LAST_WORDS_SECONDS", 0.05)
    async with connected(tmp_path / "log") as (client, zygote):
        process, _ = await ended(client, zygote)
        async with asyncio.timeout(5):
            assert await process.receive() is None


async def test_messages_sent_before_the_end_of_a_runner_are_received(tmp_path: Path):
    async with connected(tmp_path / "log") as (client, zygote):
        process, line = await ended(client, zygote)
        os.write(line, frame(Ready(spark_version="4")))
        assert await process.receive() == Ready(spark_version="4")

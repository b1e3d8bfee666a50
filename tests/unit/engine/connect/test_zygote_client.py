"""The task executor's side of the connection to a zygote, with a fake zygote."""

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
    """A zygote that ignores requests, and ends when its event `ended` is set."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self.pid = os.getpid()
        self.ended = asyncio.Event()
        self.descriptors: list[int] = []

    async def wait(self) -> int:
        await self.ended.wait()
        return 0

    def receive_connection(self) -> int:
        """Receive the descriptors of a forked runner; return its end of the connection."""
        _, self.descriptors, _, _ = socket.recv_fds(self._control, 4096, 3)
        return self.descriptors[0]

    def send_report(self, report: Forked | Exited) -> None:
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


async def fork_and_report_exit(client: ZygoteClient, zygote: Zygote) -> tuple[ForkedProcess, int]:
    """A runner that was reported as dead, and its end of the connection, which is still open."""
    process = await client.fork()
    connection = zygote.receive_connection()
    zygote.send_report(Exited(runner=1, pid=7, status=-9))
    assert await process.exited == ProcessExit(code=-9)
    return process, connection


async def test_receiving_from_a_runner_ends_when_the_runner_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(zygote_client, "_LAST_WORDS_SECONDS", 0.05)
    async with connected(tmp_path / "log") as (client, zygote):
        process, _ = await fork_and_report_exit(client, zygote)
        async with asyncio.timeout(5):
            assert await process.receive() is None


async def test_messages_sent_before_the_end_of_a_runner_are_received(tmp_path: Path):
    async with connected(tmp_path / "log") as (client, zygote):
        process, connection = await fork_and_report_exit(client, zygote)
        os.write(connection, frame(Ready(spark_version="4")))
        assert await process.receive() == Ready(spark_version="4")

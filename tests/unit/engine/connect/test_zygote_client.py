"""The task executor's side of the connection to a zygote, with a fake zygote."""

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoker.core.errors import Unavailable
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


async def test_a_runner_that_cannot_be_started_is_unavailable_and_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with connected(tmp_path / "log") as (client, _):
        before = len(os.listdir("/proc/self/fd"))
        made = iter([os.pipe])

        def pipe() -> tuple[int, int]:
            if (make := next(made, None)) is None:
                raise OSError(errno.EMFILE, "Too many open files")
            return make()

        monkeypatch.setattr(zygote_client.os, "pipe", pipe)
        with pytest.raises(Unavailable, match="Too many open files"):
            await client.fork()
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(os.listdir("/proc/self/fd")) <= before


async def test_reports_that_arrive_after_the_end_of_the_zygote_are_ignored(tmp_path: Path):
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, error: errors.append(error))
    async with connected(tmp_path / "log") as (client, zygote):
        process = await client.fork()
        zygote.receive_connection()
        zygote.ended.set()
        assert (await process.exited).parent == ProcessExit(code=0)
        zygote.send_report(Forked(runner=1, pid=7))
        zygote.send_report(Exited(runner=1, pid=7, status=-9))
        for _ in range(5):
            await asyncio.sleep(0)
    assert errors == []

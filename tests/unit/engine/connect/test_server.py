"""A Spark server, as seen by the tasks that use it."""

import asyncio
from typing import Any

import pytest

from stoker.engine.connect import server as server_module
from stoker.engine.connect.server import (
    KillReason,
    SparkServer,
    end_if_spark_stopped,
    explain_exit,
)
from stoker.osproc.exit import ProcessExit


async def exit_after(seconds: float) -> ProcessExit:
    await asyncio.sleep(seconds)
    return ProcessExit(code=1)


async def test_a_server_that_has_exited_is_not_killed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process id of an exited server may belong to another process by now."""
    killed: list[int] = []
    monkeypatch.setattr(server_module, "kill_tree", killed.append)
    watchdog: Any = None
    kill_reason = KillReason()
    one = SparkServer(
        pid=7,
        watchdog=watchdog,
        port=1,
        token="",
        ui="",
        died=asyncio.create_task(exit_after(0)),
        kill_reason=kill_reason,
    )
    one.kill("its tasks were uninterruptible", is_collateral=True)
    assert (killed, kill_reason.text) == ([7], "its tasks were uninterruptible")
    assert kill_reason.is_collateral
    await one.died
    one.kill("again", is_collateral=False)
    assert killed == [7]


class Server:
    """A server whose web page answers if something listens on the port `page`."""

    pid = 1

    def __init__(self, page: int) -> None:
        self.died: asyncio.Future[ProcessExit] = asyncio.get_running_loop().create_future()
        self.ui = f"http://127.0.0.1:{page}"
        self.kills: list[tuple[str, bool]] = []

    def kill(self, reason: str, *, is_collateral: bool) -> None:
        self.kills.append((reason, is_collateral))
        self.died.set_result(ProcessExit(code=-9, explanation=reason))


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_NOTICE_SECONDS", 0.05)
    monkeypatch.setattr(server_module, "_SHUTDOWN_SECONDS", 0.2)


async def has_ended(server: Any) -> bool:
    return await end_if_spark_stopped(server)


async def test_a_server_whose_process_is_gone_has_ended() -> None:
    server = Server(page=1)
    asyncio.get_running_loop().call_later(0.01, server.died.set_result, ProcessExit(code=52))
    assert await has_ended(server)
    assert not server.kills


async def test_a_server_gets_time_to_shut_down() -> None:
    server = Server(page=1)
    asyncio.get_running_loop().call_later(0.15, server.died.set_result, ProcessExit(code=52))
    assert await has_ended(server)
    assert not server.kills


async def test_a_server_whose_web_page_answers_has_not_ended_whatever_the_error_said() -> None:
    async def listen(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    listening = await asyncio.start_server(listen, "127.0.0.1", 0)
    async with listening:
        server = Server(page=listening.sockets[0].getsockname()[1])
        assert not await has_ended(server)
    assert not server.kills


async def test_a_server_that_outlives_its_stopped_spark_is_killed_without_blame_for_a_task() -> (
    None
):
    server = Server(page=1)
    assert await has_ended(server)
    [(_, is_collateral)] = server.kills
    assert not is_collateral


def test_the_exit_of_a_server_out_of_memory_names_the_reason() -> None:
    tail = "WARN x\nTerminating due to java.lang.OutOfMemoryError: Java heap space\n"
    assert explain_exit(3, tail).describe() == (
        "java.lang.OutOfMemoryError: Java heap space (exit code 3); "
        "raise taskmanager.memory.spark-heap"
    )
    assert "java.lang.OutOfMemoryError" in explain_exit(52, tail).describe()
    assert "java.lang.OutOfMemoryError (exit code 52)" in explain_exit(52, "WARN x").describe()
    assert explain_exit(3, "WARN x").describe() == "exit code 3"
    assert explain_exit(-9, tail).describe() == "killed by SIGKILL", (
        "the server had survived the error in its log"
    )

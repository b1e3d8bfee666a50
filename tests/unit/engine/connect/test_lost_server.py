"""A Spark server that a task has lost."""

import asyncio
from typing import Any

import pytest

from stoker.engine.connect import lost_server
from stoker.engine.connect.lost_server import has_ended


class Server:
    """Its page is there while `page` is a port that somebody listens on."""

    pid = 1

    def __init__(self, page: int) -> None:
        self.died: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.ui = f"http://127.0.0.1:{page}"
        self.put_down_for: list[tuple[str, bool]] = []

    def put_down(self, reason: str, *, is_neighbours: bool) -> None:
        self.put_down_for.append((reason, is_neighbours))
        self.died.set_result(reason)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_server, "_NOTICE_SECONDS", 0.05)
    monkeypatch.setattr(lost_server, "_FAREWELL_SECONDS", 0.2)


async def ended(server: Any) -> bool:
    return await has_ended(server)


async def test_one_that_is_gone_has_ended() -> None:
    server = Server(page=1)
    asyncio.get_running_loop().call_later(0.01, server.died.set_result, "exit code 52")
    assert await ended(server)
    assert not server.put_down_for


async def test_one_that_is_on_its_way_out_is_waited_for() -> None:
    server = Server(page=1)
    asyncio.get_running_loop().call_later(0.15, server.died.set_result, "exit code 52")
    assert await ended(server)
    assert not server.put_down_for


async def test_one_whose_page_is_there_has_not_ended_whatever_the_error_said() -> None:
    async def listen(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    listening = await asyncio.start_server(listen, "127.0.0.1", 0)
    async with listening:
        server = Server(page=listening.sockets[0].getsockname()[1])
        assert not await ended(server)
    assert not server.put_down_for


async def test_one_in_which_spark_has_stopped_and_that_stays_is_ended_by_nobodys_fault() -> None:
    server = Server(page=1)
    assert await ended(server)
    [(_, is_neighbours)] = server.put_down_for
    assert not is_neighbours

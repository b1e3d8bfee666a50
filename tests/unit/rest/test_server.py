"""Listening, closing, and the addresses at which a server may listen."""

import asyncio
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from stoker.core.errors import InvalidOption, StartupFailed
from stoker.core.options import ByteSize
from stoker.gateways.dispatcher import SavepointStatus
from stoker.rest.options import RestOptions
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import RUNNING
from unit.rest.control.test_savepoints import DONE, TRIGGER, SavepointDispatcher


def options(port: str, **others: object) -> RestOptions:
    return RestOptions(bind_port=port, **others)  # type: ignore[arg-type]


async def test_the_server_listens_on_the_first_free_port() -> None:
    """The port before it in the list is occupied (REST-01)."""
    with socket.create_server(("127.0.0.1", 0)) as occupied, socket.socket() as probe:
        taken = occupied.getsockname()[1]
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
        probe.close()
        async with Master(options=options(f"{taken},{free}")).serving() as url:
            assert url == f"http://127.0.0.1:{free}"


async def test_a_port_in_use_is_named_with_its_option() -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = occupied.getsockname()[1]
        with pytest.raises(StartupFailed, match=rf"{port}; .* change rest\.bind-port"):
            async with Master(options=options(str(port))).serving():
                pass


@pytest.mark.parametrize("address", ["0.0.0.0", "192.0.2.1", "::", "example.org"])
async def test_listening_for_other_machines_without_authentication_is_refused(
    address: str,
) -> None:
    with pytest.raises(InvalidOption, match=r"rest\.bind-address"):
        async with Master(options=options("0", bind_address=address)).serving():
            pass


async def test_the_advertised_name_appears_in_the_url() -> None:
    async with Master(options=options("0", address="localhost")).serving() as url:
        assert url.startswith("http://localhost:")


async def test_an_ipv6_address_is_in_brackets_in_the_url() -> None:
    async with Master(options=options("0", bind_address="::1")).serving() as url:
        assert url.startswith("http://[::1]:")


async def test_a_request_in_progress_ends_before_the_server_does() -> None:
    """New connections are refused afterwards (REST-06)."""
    master = Master()
    dispatcher = master.dispatcher
    dispatcher.gate.clear()
    async with httpx.AsyncClient() as http:
        async with master.serving() as url:
            slow = asyncio.create_task(http.get(f"{url}/jobs"))
            await dispatcher.arrived.wait()
            asyncio.get_running_loop().call_later(0.05, dispatcher.gate.set)
        assert (await slow).status_code == 200
        with pytest.raises(httpx.ConnectError):
            await http.get(f"{url}/jobs")


async def test_a_request_that_outlives_the_shutdown_timeout_gets_503() -> None:
    """It is cancelled, and still answered (REST-06)."""
    master = Master(options=options("0", shutdown_timeout=timedelta(seconds=0)))
    master.dispatcher.gate.clear()
    async with httpx.AsyncClient() as http:
        async with master.serving() as url:
            slow = asyncio.create_task(http.get(f"{url}/jobs"))
            await master.dispatcher.arrived.wait()
        assert (await slow).status_code == 503


async def test_a_long_poll_does_not_delay_the_shutdown_of_the_server() -> None:
    master = Master(options=options("0", shutdown_timeout=timedelta(minutes=1)))
    async with httpx.AsyncClient() as http:
        async with asyncio.timeout(20), master.serving() as url:
            waiting = asyncio.create_task(
                http.get(f"{url}/jobs/{RUNNING}/status?wait=30&known=RUNNING")
            )
            await master.dispatcher.asked_to_wait.wait()
        answer = await waiting
    assert answer.status_code == 503
    assert "try again" in answer.json()["errors"][0]


class SlowSavepoints(SavepointDispatcher):
    def __init__(self, master: Master) -> None:
        super().__init__(master, DONE)
        self.gate = asyncio.Event()

    async def savepoint_status(
        self, job_id: str, trigger_id: str, seconds: float
    ) -> SavepointStatus:
        await self.gate.wait()
        return DONE


async def test_a_server_that_closes_lets_clients_read_the_outcomes_of_operations() -> None:
    """It refuses new ones, and answers about old ones also when it no longer leads.

    (OPS-03, OPS-04)
    """
    master = Master(options=options("0", shutdown_timeout=timedelta(minutes=1)))
    saving, end = SlowSavepoints(master), asyncio.Event()
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def serve() -> None:
        async with master.serving() as url:
            started.set_result(url)
            await end.wait()

    async with asyncio.timeout(20), httpx.AsyncClient() as http:
        server = asyncio.create_task(serve())
        savepoints = f"{await started}/jobs/{RUNNING}/savepoints"
        await http.post(savepoints, params={"triggerId": TRIGGER})
        end.set()
        refused = await http.post(savepoints, params={"triggerId": "8" * 32})
        assert (refused.status_code, "shutting down" in refused.text) == (503, True)
        master.leading = False
        status = f"{savepoints}/{TRIGGER}"
        assert (await http.get(status)).json()["status"]["id"] == "IN_PROGRESS"
        saving.gate.set()
        outcome = (await http.get(status)).json()
        assert outcome["operation"] == {"location": "/saved/one"}
        await server
        with pytest.raises(httpx.ConnectError):
            await http.get(status)


async def test_outcomes_that_nobody_reads_delay_the_end_only_for_the_shutdown_timeout() -> None:
    """Operations that still run then are cancelled (OPS-04)."""
    master = Master(options=options("0", shutdown_timeout=timedelta(seconds=0)))
    SlowSavepoints(master)
    async with asyncio.timeout(20), httpx.AsyncClient() as http, master.serving() as url:
        answer = await http.post(f"{url}/jobs/{RUNNING}/savepoints")
        assert answer.status_code == 202
    assert not [each for each in asyncio.all_tasks() if each.get_name().startswith("savepoint")]


async def test_a_connection_is_kept_alive_until_the_client_closes_it() -> None:
    """Like Flink's clients: many requests on one connection; the last one asks to close it."""
    async with Master().serving() as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        for header in ("", "", "Connection: close\r\n"):
            writer.write(f"GET /v1/overview HTTP/1.1\r\nHost: localhost\r\n{header}\r\n".encode())
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert head.startswith(b"http/1.1 200")
            await reader.readexactly(int(head.partition(b"content-length: ")[2].split()[0]))
        assert b"connection: close" in head
        assert await reader.read() == b""
        writer.close()


async def test_a_file_may_be_uploaded_in_chunks(tmp_path: Path) -> None:
    master = Master(options=options("0", upload_directory=tmp_path))
    head = b"--x\r\nContent-Disposition: form-data; name=jarfile; filename=a.sql\r\n\r\nSELECT 1"

    async def chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(head), 7):
            yield head[at : at + 7]
        yield b"\r\n--x--\r\n"

    async with master.serving() as url, httpx.AsyncClient(base_url=url) as http:
        kind = {"content-type": "multipart/form-data; boundary=x"}
        answer = await http.post("/jars/upload", content=chunks(), headers=kind)
    assert answer.status_code == 200, answer.text
    (content,) = await master.storage.list("programs/contents")
    assert await master.storage.read(content) == b"SELECT 1"


def upload_head(path: str, length: int) -> bytes:
    """The beginning of an upload of `length` bytes."""
    return (
        b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
        b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
        b'Content-Disposition: form-data; name="artifact"; filename="a.py"\r\n\r\nabc'
    ) % (path.encode(), length)


@pytest.mark.parametrize("path", ["/jobs", "/v1/jars/upload"])
async def test_a_client_that_disconnects_during_its_upload_leaves_no_files(
    tmp_path: Path, path: str
) -> None:
    """Nothing is left on the disk or in the storage (REST-10)."""
    master = Master(options=options("0", upload_directory=tmp_path))
    async with master.serving() as url:
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(upload_head(path, 9_999_999))
        await writer.drain()
        writer.close()
        await writer.wait_closed()
    assert list(tmp_path.iterdir()) == []
    assert await master.storage.list("") == []
    assert (master.dispatcher.graphs, master.blobs.content) == ({}, {})


@pytest.mark.parametrize("path", ["/jobs", "/v1/jars/upload"])
@pytest.mark.parametrize("standby", [False, True])
async def test_two_gigabytes_are_refused_before_they_are_sent(
    tmp_path: Path, path: str, standby: bool
) -> None:
    """The declared length is enough, at the leader and at a standby (REST-04)."""
    limit = ByteSize(512 * 1024 * 1024)
    master = Master(
        options=options("0", upload_directory=tmp_path, max_content_length=limit),
        leading=not standby,
        leader="http://127.0.0.1:9" if standby else None,
    )
    async with master.serving() as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(upload_head(path, 2 * 1024**3))
        await writer.drain()
        async with asyncio.timeout(8):  # Less than the server keeps reading.
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split()[0])
            body = await reader.readexactly(length)
        writer.close()
        await writer.wait_closed()
    assert head.startswith(b"HTTP/1.1 413 ")
    assert b"x-content-type-options: nosniff" in head.lower()
    assert b"rest.server.max-content-length" in body
    assert list(tmp_path.iterdir()) == []

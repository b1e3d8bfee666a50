"""What a client cannot do before it has proved who it is: fill the memory, or stay for ever."""

import asyncio
import resource
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest

from stoker.core.options import ByteSize
from stoker.rest.http import connections
from stoker.rest.http.connections import ConnectionLimits, OpenConnections, connection_limits
from stoker.rest.options import RestOptions
from stoker.testing.rest import Master

HEAD = b"GET /overview HTTP/1.1\r\nhost: localhost\r\n"
SOON = timedelta(seconds=0.05)


@pytest.fixture(autouse=True)
def frequent_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SWEEP_SECONDS", 0.02)


@asynccontextmanager
async def connected(
    **options: Any,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, str]]:
    """A connection to a server with these options."""
    master = Master(options=RestOptions(bind_port="0", **options))
    async with asyncio.timeout(20), master.serving() as url:
        reader, writer = await connect(url)
        try:
            yield reader, writer, url
        finally:
            writer.close()


async def connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"x: " + b"a" * 5000 + b"\r\n\r\n",
        HEAD + b"x: a\r\n" * 1000 + b"\r\n",
        HEAD + b"x: " + b"a" * 5000,
        b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /" + b"a" * 5000,
    ],
    ids=["header", "headers", "unfinished header", "path", "unfinished path"],
)
async def test_a_head_that_is_too_large_is_answered_with_431(head: bytes) -> None:
    async with connected(max_header_size=ByteSize(4096)) as (reader, writer, _):
        writer.write(head)
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert b"larger than 4096 bytes" in answer


async def test_a_head_that_comes_in_small_pieces_is_counted_as_a_whole() -> None:
    async with connected(max_header_size=ByteSize(4096)) as (reader, writer, _):
        writer.write(HEAD)
        answered = asyncio.create_task(reader.read())
        while not answered.done():
            writer.write(b"x: " + b"a" * 200 + b"\r\n")
            await asyncio.sleep(0)
        assert (await answered).startswith(b"HTTP/1.1 431 ")


async def test_a_refused_client_cannot_go_on_sending(monkeypatch: pytest.MonkeyPatch) -> None:
    """To read all that it sends would keep the event loop busy."""
    monkeypatch.setattr(connections, "LINGER_SECONDS", 0.5)
    sent = 0
    async with connected(max_header_size=ByteSize(4096)) as (_, writer, _url):
        with pytest.raises(OSError):
            while sent < 2**30:
                writer.write(b"x" * 65536)
                sent += 65536
                await writer.drain()
    assert sent < 64 * 2**20, "about a megabyte, and what the buffers of the kernel hold"


@pytest.mark.parametrize("sent", [b"", HEAD, b"\r\n\r\n"], ids=["nothing", "a part", "no request"])
async def test_a_client_that_sends_no_whole_request_is_disconnected(sent: bytes) -> None:
    async with connected(header_timeout=SOON) as (reader, writer, _):
        writer.write(sent)
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")


async def test_time_in_which_this_process_was_frozen_does_not_count() -> None:
    """What clients have sent meanwhile has only not been read."""
    async with connected(header_timeout=timedelta(seconds=0.5)) as (reader, writer, _):
        writer.write(HEAD)
        await asyncio.sleep(0.1)
        time.sleep(1)
        writer.write(b"\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_the_next_request_of_a_connection_has_the_same_time() -> None:
    async with connected(header_timeout=SOON) as (reader, writer, _):
        writer.write(HEAD + b"\r\n" + HEAD)
        answers = await reader.read()
        assert answers.count(b"HTTP/1.1 200 ") == 1
        assert answers.count(b"HTTP/1.1 408 ") == 1


async def test_a_quiet_connection_between_two_requests_stays() -> None:
    async with connected(header_timeout=SOON) as (reader, writer, _):
        for _ in range(2):
            writer.write(HEAD + b"\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            length = head.lower().partition(b"content-length: ")[2].split()[0]
            await reader.readexactly(int(length))
            await asyncio.sleep(5 * SOON.total_seconds())


BODY = (
    b"POST /jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n"
    b"content-type: multipart/form-data; boundary=x\r\n\r\n"
)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"min_body_rate": ByteSize(1_000_000)}, b"at less than 1e+06 bytes a second"),
        ({"body_timeout": SOON}, b"took longer than 0.05 s"),
    ],
)
async def test_a_body_that_comes_too_slowly_is_answered_with_408(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], reason: bytes
) -> None:
    monkeypatch.setattr(connections, "_BODY_GRACE_SECONDS", 0.05)
    async with connected(**options) as (reader, writer, _):
        writer.write(BODY)
        answered = asyncio.create_task(reader.read())
        while not answered.done():
            writer.write(b"x")
            await asyncio.sleep(0.01)
        answer = await answered
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert reason in answer


async def test_slow_uploads_give_their_places_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_BODY_GRACE_SECONDS", 0.05)
    options = {"min_body_rate": ByteSize(1_000_000), "max_concurrent_uploads": 1}
    async with connected(**options) as (reader, writer, url), httpx.AsyncClient() as http:
        writer.write(BODY)
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        answer = await http.post(f"{url}/jobs", files={"graph": b"{}"})
        assert answer.status_code == 400


async def test_a_refused_body_does_not_keep_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_REST_SECONDS", 0.05)
    async with connected() as (reader, writer, _):
        writer.write(BODY.replace(b"/jobs", b"/nothing"))
        answer = asyncio.create_task(reader.read())
        while not answer.done():
            writer.write(b"x")
            await asyncio.sleep(0.01)
        assert (await answer).startswith(b"HTTP/1.1 400 ")


async def test_connections_beyond_the_limit_are_answered_with_503() -> None:
    async with connected(max_connections=8, max_connections_per_address=2) as (reader, first, url):
        others = [await connect(url) for _ in range(2)]
        refused, _ = others[-1]
        answer = await refused.read()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"127.0.0.1 has 2 connections" in answer
        first.write(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        await reader.read()
        async with httpx.AsyncClient() as http:
            assert (await http.get(f"{url}/overview")).status_code == 200
        for _, writer in others:
            writer.close()


@pytest.fixture
def limits() -> ConnectionLimits:
    return ConnectionLimits(
        connections=3,
        connections_of_one=2,
        head_bytes=1,
        head_seconds=1,
        body_rate=1,
        body_seconds=1,
    )


def test_connections_are_limited_in_all_and_for_each_address(limits: ConnectionLimits) -> None:
    open_ones = OpenConnections(limits)
    first, second, third = (object() for _ in range(3))
    open_ones.add(first, "a")  # type: ignore[arg-type]
    open_ones.add(second, "a")  # type: ignore[arg-type]
    assert open_ones.find_refusal("a") == "a has 2 connections, which is the limit"
    assert open_ones.find_refusal("b") is None
    with open_ones.counting_handshake("b"):
        assert open_ones.find_refusal("c") is not None
    open_ones.add(third, "b")  # type: ignore[arg-type]
    assert open_ones.find_refusal("c") == "this server has 3 connections, which is its limit"
    for connection in (first, first, second, third):
        open_ones.remove(connection, "b" if connection is third else "a")  # type: ignore[arg-type]
    assert (open_ones.open, open_ones.by_address) == (set(), {})


def test_the_limit_leaves_file_descriptors_for_everything_else() -> None:
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    options = RestOptions(max_connections=10**9, max_connections_per_address=10**9)
    if most != resource.RLIM_INFINITY:
        assert connection_limits(options).connections == most // 2
    limits = connection_limits(RestOptions(max_connections=100, max_connections_per_address=100))
    assert (limits.connections, limits.connections_of_one) == (100, 75)

"""Behaviour that only a transport between processes can show."""

import asyncio
import signal
import socket
import sys
from datetime import timedelta

import grpc
import pytest

from contract.certificates import authority
from contract.rpc_services import Stock, StockGateway
from stoker.core.errors import (
    CallTimedOut,
    HandshakeFailed,
    RecipientUnreachable,
    StartupFailed,
    TooLarge,
)
from stoker.core.options import ByteSize
from stoker.rpc import grpc_transport
from stoker.rpc.conversation import LARGEST_FRAME
from stoker.rpc.grpc_transport import credentials_from, open_grpc
from stoker.rpc.options import RpcOptions

CHILD = """
import asyncio, sys
sys.path.insert(0, {tests!r})
from contract.rpc_services import Stock
from stoker.rpc.grpc_transport import open_grpc

async def main():
    service = await open_grpc("127.0.0.1", {ports!r})
    async with service.running(Stock()) as address:
        print(address, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def start_child(ports="0"):
    tests = __file__.rpartition("/contract/")[0]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD.format(tests=tests, ports=ports), stdout=asyncio.subprocess.PIPE
    )
    address = (await child.stdout.readline()).decode().strip()
    return child, address


async def kill(child):
    child.kill()
    await child.communicate()


@pytest.fixture
async def here():
    service = await open_grpc("127.0.0.1")
    yield service
    await service.close()


def listening_socket():
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    return taken, taken.getsockname()[1]


async def test_an_occupied_port_is_named_and_nothing_starts():
    """The port can be used when its owner has closed (X-RPC-08)."""
    first = await open_grpc("127.0.0.1")
    port = first.address.rpartition(":")[2]
    with pytest.raises(StartupFailed, match=rf"port {port}.*set another port"):
        await open_grpc("127.0.0.1", port)
    await first.close()
    second = await open_grpc("127.0.0.1", port)
    await second.close()


async def test_the_first_free_port_of_a_range_is_used():
    """The first port of the range is occupied (X-RPC-08)."""
    taken, port = listening_socket()
    with taken:
        service = await open_grpc("127.0.0.1", f"{port}-{port + 20}")
        chosen = int(service.address.rpartition(":")[2])
        await service.close()
    assert port < chosen <= port + 20


async def test_the_death_of_a_process_fails_calls_in_flight_and_ends_the_wait(here):
    """The broken connection is noticed at once (RPC-08)."""
    child, address = await start_child()
    try:
        stock = await here.connect(address, StockGateway, timeout=timedelta(hours=1))
        call = asyncio.create_task(stock.wait())
        gone = asyncio.create_task(here.wait_until_gone(address))
        await stock.items()
        assert not call.done()
        assert not gone.done()
    finally:
        await kill(child)
    async with asyncio.timeout(5):
        with pytest.raises(RecipientUnreachable):
            await call
        await gone
        with pytest.raises(RecipientUnreachable):
            await stock.items()


async def test_a_frozen_process_is_silent_but_not_disconnected(here):
    """Calls to a frozen process end with their timeouts (RPC-09)."""
    child, address = await start_child()
    try:
        stock = await here.connect(address, StockGateway, timeout=timedelta(milliseconds=100))
        gone = asyncio.create_task(here.wait_until_gone(address))
        await stock.items()
        child.send_signal(signal.SIGSTOP)
        with pytest.raises(CallTimedOut):
            await stock.items()
        with pytest.raises(RecipientUnreachable, match="answered within"):
            await here.connect(address, StockGateway, timeout=timedelta(milliseconds=100))
        assert not gone.done()
    finally:
        await kill(child)
    async with asyncio.timeout(5):
        await gone


async def test_a_proxy_reaches_the_next_process_on_the_same_port_without_delay(here):
    child, address = await start_child()
    stock = await here.connect(address, StockGateway)
    await kill(child)
    with pytest.raises(RecipientUnreachable):
        await stock.items()
    child, again = await start_child(address.split(":")[2].partition("/")[0])
    try:
        assert again == address
        assert await stock.items() == []
    finally:
        await kill(child)


async def test_an_advertised_host_is_part_of_the_address():
    service = await open_grpc("127.0.0.1", advertised_host="localhost")
    try:
        async with service.running(Stock()) as address:
            assert address.startswith("grpc://localhost:")
            stock = await service.connect(address, StockGateway)
            assert await stock.items() == []
    finally:
        await service.close()


@pytest.mark.parametrize("stranger", [None, "foreign"])
async def test_only_a_process_with_a_certificate_of_the_cluster_is_answered(stranger):
    """The others have none, or one of another authority (RPC-12)."""
    inside = await open_grpc("127.0.0.1", credentials=credentials_from(authority().material))
    material = authority(stranger).material if stranger else None
    outside = await open_grpc("127.0.0.1", credentials=credentials_from(material))
    try:
        async with inside.running(Stock()) as address:
            with pytest.raises((RecipientUnreachable, CallTimedOut)):
                await outside.connect(address, StockGateway, timeout=timedelta(seconds=5))
    finally:
        await outside.close()
        await inside.close()


async def test_the_error_names_a_process_that_speaks_another_protocol(here):
    """The message has the address of the process (RPC-10)."""
    stranger = grpc.aio.server()
    port = stranger.add_insecure_port("127.0.0.1:0")
    await stranger.start()
    try:
        with pytest.raises(HandshakeFailed, match=f"127.0.0.1:{port} speaks another protocol"):
            await here.connect(f"grpc://127.0.0.1:{port}/stock", StockGateway)
    finally:
        await stranger.stop(0)


async def test_small_and_large_calls_run_at_once(here):
    there = await open_grpc("127.0.0.1")
    try:
        async with there.running(Stock()) as address:
            stock = await here.connect(address, StockGateway)
            sent = [bytes([size % 256]) * size for size in (1, LARGEST_FRAME * 3, 100, 2**20)] * 20
            assert await asyncio.gather(*map(stock.echo, sent)) == sent
    finally:
        await there.close()


async def test_a_service_closes_without_waiting_for_its_callers(here, monkeypatch):
    monkeypatch.setattr(grpc_transport, "_STOP_GRACE_SECONDS", 600.0)
    there = await open_grpc("127.0.0.1")
    async with there.running(Stock()) as address:
        stock = await here.connect(address, StockGateway)
        call = asyncio.create_task(stock.wait())
        assert await stock.items() == []
    async with asyncio.timeout(20):
        with pytest.raises(RecipientUnreachable):
            await call
        await there.close()
        with pytest.raises(RecipientUnreachable):
            await stock.items()


async def test_the_frame_limit_does_not_limit_many_frames_together():
    options = RpcOptions(frame_size=ByteSize(20_000))
    here, there = (
        await open_grpc("127.0.0.1", options=options),
        await open_grpc("127.0.0.1", options=options),
    )
    try:
        async with there.running(Stock()) as address:
            stock = await here.connect(address, StockGateway)
            sent = [bytes([number]) * 15_000 for number in range(100)]
            assert await asyncio.gather(*map(stock.echo, sent)) == sent
            with pytest.raises(TooLarge):
                await stock.echo(b"double" + bytes(12_000))
            assert await stock.echo(b"small") == b"small"
    finally:
        await here.close()
        await there.close()

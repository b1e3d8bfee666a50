"""Endpoints of a process that ends while calls are queued."""

import asyncio
import gc
import warnings
from typing import Protocol

import msgspec
import pytest

from stoker.core.errors import NotFound, StokerError
from stoker.metrics.catalogue import RPC_DURATION, RPC_ERRORS
from stoker.metrics.registry import MetricRegistry
from stoker.rpc.host import EndpointHost, Respond
from stoker.rpc.memory import MemoryNetwork
from stoker.rpc.service import Endpoint
from stoker.rpc.wire import Call
from unit.metrics.readings import values


class SlowGateway(Protocol):
    async def answer(self) -> int: ...


class Slow(Endpoint):
    gateway = SlowGateway

    async def answer(self) -> int:
        await asyncio.sleep(60)
        return 1


async def test_a_queued_call_of_a_dead_process_leaves_no_warning() -> None:
    network = MemoryNetwork()
    client, server = network.service("client"), network.service("server")
    receive = server.host.receive

    def receive_and_die(frame: bytes, respond: Respond) -> None:
        receive(frame, respond)
        network.crash("server")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with server.running(Slow("slow")) as address:
            slow = await client.connect(address, SlowGateway)
            server.host.receive = receive_and_die  # type: ignore[method-assign]
            with pytest.raises(StokerError):
                await slow.answer()
        # Let the cancelled task end and release its objects.
        await asyncio.sleep(0)
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


async def test_a_second_cancellation_does_not_skip_the_stop_hook() -> None:
    events: list[str] = []

    class Stubborn(Slow):
        """Its call does not end at once when it is cancelled."""

        async def answer(self) -> int:
            started.set()
            try:
                return await super().answer()
            finally:
                events.append("call cancelled")
                cancelled.set()
                await asyncio.sleep(0)

        async def on_stop(self) -> None:
            await asyncio.sleep(0)
            events.append("stopped")

    network = MemoryNetwork()
    client, server = network.service("client"), network.service("server")
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def serve() -> None:
        async with server.running(Stubborn("slow")) as own_address:
            address.set_result(own_address)
            await asyncio.Event().wait()

    serving = asyncio.create_task(serve())
    slow = await client.connect(await address, SlowGateway)
    call = asyncio.ensure_future(slow.answer())
    await started.wait()
    serving.cancel()
    await cancelled.wait()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    with pytest.raises(StokerError):
        await call
    assert events == ["call cancelled", "stopped"]


async def test_calls_are_measured_by_gateway_and_method_with_their_errors() -> None:
    class QuickGateway(Protocol):
        async def answer(self, wrong: bool) -> int: ...

    class Quick(Endpoint):
        gateway = QuickGateway

        async def answer(self, wrong: bool) -> int:
            if wrong:
                raise NotFound("nothing there")
            return 1

    registry = MetricRegistry()
    sent: list[bytes] = []
    host = EndpointHost("mem://host", frame_limit=10_000, version=1, metrics=registry.process)
    async with host.running(Quick("quick")):
        for method, wrong in (("answer", False), ("answer", True), ("unknown", False)):
            call = Call(
                endpoint="quick",
                method=method,
                token=None,
                arguments=msgspec.Raw(msgspec.msgpack.encode({"wrong": wrong})),
                timeout_seconds=1,
            )
            host.receive(msgspec.msgpack.encode(call), sent.append)
        await asyncio.sleep(0.01)
    assert len(sent) == 3
    shown = values(registry)
    assert (RPC_DURATION.name, "QuickGateway", "answer") in shown
    assert shown[RPC_ERRORS.name, "QuickGateway", "answer", "NotFound"] == 1
    assert shown[RPC_ERRORS.name, "QuickGateway", "other", "HandshakeFailed"] == 1

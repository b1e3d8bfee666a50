"""Endpoints of a process that ends while calls are queued."""

import asyncio
import gc
import warnings
from typing import Protocol

import pytest

from stoker.core.errors import StokerError
from stoker.rpc.host import Respond
from stoker.rpc.memory import MemoryNetwork
from stoker.rpc.service import Endpoint


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

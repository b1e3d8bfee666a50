"""A small gateway with its endpoint, and every kind of RPC service to run it on."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Protocol

from contract.certificates import authority
from stoker.core.errors import NotFound, StokerError
from stoker.core.values import FencingToken, Value
from stoker.rpc.grpc_transport import credentials_from, open_grpc
from stoker.rpc.memory import MemoryNetwork
from stoker.rpc.options import RpcOptions
from stoker.rpc.service import Endpoint, RpcService, call_deadline
from stoker.security.cluster_secret import ClusterSecret

KINDS = ("memory", "grpc", "grpc-over-tls", "grpc-with-secret")
SECRET = ClusterSecret(b"k" * 32)

OpenService = Callable[..., Awaitable[RpcService]]


class Item(Value):
    name: str
    weight: timedelta = timedelta(0)


class NoSuchItem(NotFound):
    """An error whose constructor takes no message, like several of Stoker's errors."""

    def __init__(self, number: int) -> None:
        super().__init__(f"no item {number}", number=number, near=[1, 2])


class StrangeError(Exception):
    """An error class that the caller does not know."""


class ReadingGateway(Protocol):
    async def items(self) -> list[Item]: ...


class StockGateway(ReadingGateway, Protocol):
    async def add(self, item: Item, times: int = 1) -> int: ...

    async def echo(self, value: bytes) -> bytes: ...

    async def raise_error(self, kind: str) -> None: ...

    async def wait(self) -> str: ...

    async def seconds_left(self) -> float: ...


class OtherGateway(Protocol):
    async def other(self) -> None: ...


ERRORS: dict[str, Exception] = {
    "stoker": NoSuchItem(7),
    "plain": StokerError("plain words", size=3),
    "built-in": ValueError("not a number", 3),
    "file": FileNotFoundError(2, "No such file", "/nowhere"),
    "key": KeyError("k"),
    "strange": StrangeError("odd"),
}


class Stock(Endpoint):
    gateway = StockGateway

    def __init__(self, name: str = "stock", *, token: FencingToken | None = None) -> None:
        super().__init__(name, token=token)
        self.stored: list[Item] = []
        self.waiting = asyncio.Event()
        self.release = asyncio.Event()
        self.hooks: list[str] = []
        self.start_gate: asyncio.Event | None = None
        self.stop_gate: asyncio.Event | None = None
        self.fail_at: str | None = None
        self.turns = 0
        self.most_turns_at_once = 0

    async def on_start(self) -> None:
        self.check_turn()
        await self._hook("start", self.start_gate)

    async def on_stop(self) -> None:
        self.check_turn()
        await self._hook("stop", self.stop_gate)

    async def _hook(self, name: str, gate: asyncio.Event | None) -> None:
        self.hooks.append(name)
        if gate is not None:
            await gate.wait()
        if self.fail_at == name:
            raise LookupError(f"the {name} hook failed")

    def add(self, item: Item, times: int = 1) -> int:
        self.check_turn()
        self.turns += 1
        self.most_turns_at_once = max(self.most_turns_at_once, self.turns)
        self.stored += [item] * times
        self.turns -= 1
        return len(self.stored)

    def items(self) -> list[Item]:
        return self.stored

    def echo(self, value: bytes) -> bytes:
        return value * 2 if value.startswith(b"double") else value

    async def raise_error(self, kind: str) -> None:
        await asyncio.sleep(0)
        raise ERRORS[kind]

    async def wait(self) -> str:
        self.waiting.set()
        try:
            await self.release.wait()
        finally:
            self.hooks.append("waited")
        return "released"

    def seconds_left(self) -> float:
        deadline = call_deadline.get()
        assert deadline is not None
        return deadline - asyncio.get_running_loop().time()


@asynccontextmanager
async def services(kind: str) -> AsyncIterator[OpenService]:
    """Yield a function that opens services of this kind; close the services at the end."""
    network = MemoryNetwork()
    opened: list[RpcService] = []

    async def open_service(*, options: RpcOptions | None = None, **more: Any) -> RpcService:
        if kind == "memory":
            service: RpcService = network.service(f"s{len(opened)}", options=options, **more)
        else:
            material = authority().material if kind == "grpc-over-tls" else None
            credentials = credentials_from(material)
            secret = SECRET if kind == "grpc-with-secret" else None
            service = await open_grpc(
                "127.0.0.1", "0", options, credentials=credentials, secret=secret, **more
            )
        opened.append(service)
        return service

    try:
        yield open_service
    finally:
        for service in opened:
            await service.close()


def unused_address(kind: str) -> str:
    """An address at which no service listens."""
    return "mem://nobody" if kind == "memory" else "grpc://127.0.0.1:1"

"""The transport of simulations: a network in memory that can be slow, lossy, cut or crashed.

Frames are the same bytes as between processes. The network has neither threads nor tasks: messages
are timers of the running loop, so a simulation on virtual time repeats exactly.
"""

import asyncio
import contextvars
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from stoker.aio.latest import Latest
from stoker.core.errors import RecipientUnreachable
from stoker.rpc.host import EndpointHost, settle
from stoker.rpc.options import RpcOptions
from stoker.rpc.proxy import Caller
from stoker.rpc.service import PROTOCOL_VERSION, Endpoint
from stoker.rpc.wire import split_address


class Faults(Protocol):
    def delay(self, source: str, destination: str) -> float | None:
        """Seconds that the next message between these services takes; None loses it."""
        ...


class NoFaults:
    def delay(self, source: str, destination: str) -> float | None:
        return 0.0


class MemoryNetwork:
    """The network that the services of one simulation share; each service has a name."""

    def __init__(self, faults: Faults | None = None) -> None:
        self.faults: Faults = faults or NoFaults()
        self._services: dict[str, MemoryRpcService] = {}
        self._cuts: Latest[frozenset[frozenset[str]]] = Latest(frozenset())

    def service(
        self,
        name: str,
        *,
        options: RpcOptions | None = None,
        protocol_version: int = PROTOCOL_VERSION,
    ) -> "MemoryRpcService":
        """A new service at `mem://name`; the name is free again after close or crash."""
        if name in self._services:
            raise ValueError(f"a service named {name} is on the network already")
        created = MemoryRpcService(self, name, options or RpcOptions(), protocol_version)
        self._services[name] = created
        return created

    def partition(self, one: str, other: str) -> None:
        """Lose every message between two services until healed."""
        self._cuts.set(self._cuts.value | {frozenset((one, other))})

    def heal(self, one: str | None = None, other: str | None = None) -> None:
        """Mend one cut, or all of them."""
        mended = {frozenset((one, other))} if one and other else self._cuts.value
        self._cuts.set(self._cuts.value - mended)

    def crash(self, name: str) -> None:
        """Crash the process of a service: no stop hook runs and no call is answered."""
        service = self._services[name]
        service.host.vanish()
        self.remove(service)
        for caller in list(self._services.values()):
            caller.lose_peer(service)

    def find(self, name: str) -> "MemoryRpcService | None":
        return self._services.get(name)

    def remove(self, service: "MemoryRpcService") -> None:
        service.is_closed = True
        if self._services.get(service.name) is service:
            del self._services[service.name]
        service.fail_own_calls()

    def is_cut(self, one: str, other: str) -> bool:
        return frozenset((one, other)) in self._cuts.value

    async def wait_until_joined(self, one: str, other: str) -> None:
        await self._cuts.wait_until(lambda cuts: frozenset((one, other)) not in cuts)

    def send(self, source: str, destination: str, arrive: Callable[[], None]) -> None:
        """Deliver a message after its delay, or lose it."""
        delay = None if self.is_cut(source, destination) else self.faults.delay(source, destination)
        if delay is None:
            return
        context = self.context_of(destination)
        asyncio.get_running_loop().call_later(delay, arrive, context=context)

    def context_of(self, service: str) -> contextvars.Context:
        """Context of an arrival: the sender's variables must not leak to the receiver."""
        return contextvars.Context()


class MemoryRpcService(Caller):
    """An RpcService on a MemoryNetwork."""

    def __init__(
        self, network: MemoryNetwork, name: str, options: RpcOptions, protocol_version: int
    ) -> None:
        super().__init__(self._send_frame, options, protocol_version)
        self.name = name
        self.is_closed = False
        self._network = network
        self.host = EndpointHost(
            self.address, frame_limit=options.frame_size, version=protocol_version
        )
        self._pending: dict[asyncio.Future[bytes], MemoryRpcService | None] = {}

    @property
    def address(self) -> str:
        return f"mem://{self.name}"

    def running(self, endpoint: Endpoint) -> AbstractAsyncContextManager[str]:
        return self.host.running(endpoint)

    async def _send_frame(self, service: str, frame: bytes, seconds: float) -> bytes:
        if self.is_closed:
            raise RecipientUnreachable(f"{self.address} is closed and cannot call {service}")
        peer_name = service.removeprefix("mem://")
        peer = self._network.find(peer_name)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._pending[answer] = peer
        self._network.send(
            self.name, peer_name, lambda: self._arrive(peer_name, peer, frame, answer)
        )
        try:
            async with asyncio.timeout(seconds):
                return await answer
        finally:
            del self._pending[answer]

    def _arrive(
        self,
        peer_name: str,
        peer: "MemoryRpcService | None",
        frame: bytes,
        answer: asyncio.Future[bytes],
    ) -> None:
        """Deliver the frame, but not to a service that was restarted meanwhile."""

        def respond(reply: bytes) -> None:
            self._network.send(peer_name, self.name, lambda: settle(answer, reply))

        if peer is None or peer.is_closed:
            self._network.send(peer_name, self.name, lambda: _refuse(answer, f"mem://{peer_name}"))
        else:
            peer.host.receive(frame, respond)

    def lose_peer(self, peer: "MemoryRpcService") -> None:
        """Break the connection to a crashed peer, unless a cut hides the crash."""
        for answer, callee in list(self._pending.items()):
            if callee is peer and not self._network.is_cut(self.name, peer.name):
                _refuse(answer, peer.address)

    def fail_own_calls(self) -> None:
        for answer in list(self._pending):
            _refuse(answer, f"anything from {self.address}, which is closed")

    async def wait_until_gone(self, address: str) -> None:
        service, name = split_address(address)
        peer_name = service.removeprefix("mem://")
        await self._network.wait_until_joined(self.name, peer_name)
        peer = self._network.find(peer_name)
        hosted = peer.host.find(name) if peer is not None else None
        if hosted is None:
            return
        await hosted.gone.wait()
        await self._network.wait_until_joined(self.name, peer_name)

    async def close(self) -> None:
        try:
            await self.host.close()
        finally:
            self._network.remove(self)


def _refuse(answer: asyncio.Future[bytes], whom: str) -> None:
    if not answer.done():
        answer.set_exception(RecipientUnreachable(f"cannot reach {whom}", recipient=whom))

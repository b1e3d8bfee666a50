"""Calls between processes, over gRPC with frames of our own instead of protobuf messages."""

import asyncio
import contextvars
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import grpc

from stoker.core.errors import StartupFailed
from stoker.core.ids import Ids
from stoker.core.values import FencingToken
from stoker.rpc import proxy
from stoker.rpc.conversation import Answering, give_up, message_limit
from stoker.rpc.grpc_peers import GrpcPeers
from stoker.rpc.host import EndpointHost, Respond
from stoker.rpc.options import RpcOptions
from stoker.rpc.ports import read_ports
from stoker.rpc.service import PROTOCOL_VERSION, Endpoint
from stoker.rpc.wire import decode_hold, split_address

G = TypeVar("G")

_STOP_GRACE_SECONDS = 1.0
"""For answers that are on their way when the service closes."""


@dataclass(frozen=True, kw_only=True)
class GrpcCredentials:
    """What a process shows to others, as one that is called and as one that calls."""

    server: Any
    """A grpc.ServerCredentials."""
    channel: Any
    """A grpc.ChannelCredentials."""


class GrpcRpcService:
    """An RpcService for one process. Made by `open_grpc`, which makes it listen."""

    def __init__(
        self,
        server: Any,
        host: EndpointHost,
        conversations: Answering,
        peers: GrpcPeers,
        options: RpcOptions,
        protocol_version: int,
    ) -> None:
        self._server = server
        self._host = host
        self._conversations = conversations
        self._peers = peers
        self._options = options
        self._version = protocol_version

    @property
    def address(self) -> str:
        return self._host.address

    def running(self, endpoint: Endpoint) -> AbstractAsyncContextManager[str]:
        return self._host.running(endpoint)

    async def connect(
        self,
        address: str,
        gateway: type[G],
        *,
        token: FencingToken | None = None,
        timeout: timedelta | None = None,
    ) -> G:
        line = self._line(address, token, timeout)
        return await proxy.connect(line, gateway, version=self._version)

    def reach(
        self,
        address: str,
        gateway: type[G],
        *,
        token: FencingToken | None = None,
        timeout: timedelta | None = None,
    ) -> G:
        return proxy.make_proxy(gateway, self._line(address, token, timeout))

    def _line(
        self, address: str, token: FencingToken | None, timeout: timedelta | None
    ) -> proxy.Line:
        return proxy.Line(
            carry=self._carry,
            address=address,
            token=token,
            timeout=timeout or self._options.ask_timeout,
            frame_limit=self._options.frame_size,
        )

    async def _carry(self, service: str, frame: bytes, seconds: float) -> bytes:
        if service != self._host.address:
            return await self._peers.carry(service, frame, seconds)
        # Endpoints of one process, such as a job's master and the resource manager, call each
        # other all the time: the same frames, and a turn of their own, but no connection.
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        loop.call_soon(self._arrive, frame, answer, context=contextvars.Context())
        timer = loop.call_later(seconds, give_up, answer)
        try:
            return await answer
        finally:
            timer.cancel()

    def _arrive(self, frame: bytes, answer: asyncio.Future[bytes]) -> None:
        self._host.receive(frame, lambda reply: None if answer.done() else answer.set_result(reply))

    async def wait_until_gone(self, address: str) -> None:
        service, name = split_address(address)
        await self._peers.wait_until_gone(service, name)

    async def close(self) -> None:
        try:
            await self._host.close()
        finally:
            self._conversations.close()
            await self._server.stop(_STOP_GRACE_SECONDS)
            await self._peers.close()


class _Answers:
    """The server's three methods."""

    def __init__(self, ids: Ids) -> None:
        self.host: EndpointHost | None = None
        self.conversations = Answering(self._receive)
        # Tells this process from another one that listens on the same port later.
        self._process = ids.nonce()

    def _receive(self, frame: bytes, respond: Respond) -> None:
        assert self.host is not None
        self.host.receive(frame, respond)

    async def converse(self, _requests: Any, context: Any) -> None:
        await self.conversations.converse(context)

    async def call(self, frame: bytes, _context: Any) -> bytes:
        """By itself: it is too large to be among others."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def respond(reply: bytes) -> None:
            if not answer.done():
                answer.set_result(reply)

        self._receive(frame, respond)
        return await answer

    async def hold(self, frame: bytes, _context: Any) -> AsyncIterator[bytes]:
        """Says which life of the endpoint this is, and ends together with it."""
        assert self.host is not None
        request = decode_hold(frame)
        hosted = self.host.find(request.endpoint)
        if hosted is None:
            return
        life = f"{self._process}-{hosted.number}"
        if request.known_life not in ("", life):
            return
        yield life.encode()
        await hosted.gone.wait()

    def handler(self) -> Any:
        return grpc.method_handlers_generic_handler(
            "stoker.Rpc",
            {
                "Converse": grpc.stream_stream_rpc_method_handler(self.converse),
                "Call": grpc.unary_unary_rpc_method_handler(self.call),
                "Hold": grpc.unary_stream_rpc_method_handler(self.hold),
            },
        )


def _make_server(frame_limit: int) -> Any:
    return grpc.aio.server(
        options=[
            # Without this a second process could listen on a port that is in use.
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", message_limit(frame_limit)),
            ("grpc.max_send_message_length", -1),
            ("grpc.keepalive_time_ms", 2**31 - 1),
        ]
    )


def _bind(server: Any, host: str, ports: str, credentials: GrpcCredentials | None) -> int:
    for port in read_ports(ports):
        target = f"{host}:{port}"
        try:
            if credentials is None:
                return int(server.add_insecure_port(target))
            return int(server.add_secure_port(target, credentials.server))
        except RuntimeError:
            continue
    raise StartupFailed(
        f"cannot listen on {host}, port {ports}: in use, or not an address of this machine; "
        f"set another port, a range such as 50010-50020, or 0 for any free one",
        host=host,
        ports=ports,
    )


async def open_grpc(
    host: str,
    ports: str = "0",
    options: RpcOptions | None = None,
    *,
    credentials: GrpcCredentials | None = None,
    advertised_host: str | None = None,
    ids: Ids | None = None,
    protocol_version: int = PROTOCOL_VERSION,
) -> GrpcRpcService:
    """Listen on the first free of the ports; StartupFailed when there is none.

    Others reach it under `advertised_host`, which differs from `host` behind address translation
    or when listening on all interfaces.
    """
    chosen = options or RpcOptions()
    frame_limit = int(chosen.frame_size)
    server = _make_server(frame_limit)
    answers = _Answers(ids or Ids())
    server.add_generic_rpc_handlers((answers.handler(),))
    port = _bind(server, host, ports, credentials)
    address = f"grpc://{advertised_host or host}:{port}"
    answers.host = EndpointHost(address, frame_limit=frame_limit, version=protocol_version)
    await server.start()
    peers = GrpcPeers(frame_limit, credentials.channel if credentials else None)
    return GrpcRpcService(
        server, answers.host, answers.conversations, peers, chosen, protocol_version
    )

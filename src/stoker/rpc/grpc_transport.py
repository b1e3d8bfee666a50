"""The transport between processes: gRPC, with our own frames instead of protobuf messages."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import grpc

from stoker.core.errors import StartupFailed
from stoker.core.ids import Ids
from stoker.core.ports import parse_ports
from stoker.metrics.registry import MetricGroup
from stoker.rpc.admission import admit
from stoker.rpc.conversation import ConversationServer, give_up, message_limit
from stoker.rpc.grpc_peers import GrpcPeers
from stoker.rpc.host import EndpointHost, Respond, settle
from stoker.rpc.options import RpcOptions
from stoker.rpc.proxy import Caller
from stoker.rpc.service import PROTOCOL_VERSION, Endpoint
from stoker.rpc.wire import decode_presence_request, split_address
from stoker.security.cluster_secret import ClusterSecret
from stoker.security.material import TlsMaterial

Serve = Callable[[Any], Awaitable[None]]
"""Serves one stream; the argument is its context in gRPC."""

_STOP_GRACE_SECONDS = 1.0
"""Time for answers that are on their way when the service closes."""


@dataclass(frozen=True, kw_only=True)
class GrpcCredentials:
    """What a process proves its identity with, as the called side and as the calling side."""

    server: Any
    """A grpc.ServerCredentials."""
    channel: Any
    """A grpc.ChannelCredentials."""


def credentials_from(material: TlsMaterial | None) -> GrpcCredentials | None:
    """Credentials for mutual TLS: every process proves that it belongs to the cluster.

    None without TLS.
    """
    if material is None:
        return None
    key, certificate, authorities = material.read()
    return GrpcCredentials(
        server=grpc.ssl_server_credentials(
            [(key, certificate)], root_certificates=authorities, require_client_auth=True
        ),
        channel=grpc.ssl_channel_credentials(
            root_certificates=authorities, private_key=key, certificate_chain=certificate
        ),
    )


class GrpcRpcService(Caller):
    """An RpcService for one process. Created by `open_grpc`, which starts to listen."""

    def __init__(
        self,
        server: Any,
        host: EndpointHost,
        conversations: ConversationServer,
        peers: GrpcPeers,
        options: RpcOptions,
        protocol_version: int,
    ) -> None:
        super().__init__(self._send_frame, options, protocol_version)
        self._server = server
        self._host = host
        self._conversations = conversations
        self._peers = peers

    @property
    def address(self) -> str:
        return self._host.address

    def running(self, endpoint: Endpoint) -> AbstractAsyncContextManager[str]:
        return self._host.running(endpoint)

    async def _send_frame(self, service: str, frame: bytes, seconds: float) -> bytes:
        if service != self._host.address:
            return await self._peers.send(service, frame, seconds)
        # Endpoints of one process, such as a job master and the resource manager, call each other
        # all the time: with the same frames, each in its own turn, but without a connection.
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        loop.call_soon(self._arrive, frame, answer, context=contextvars.Context())
        timer = loop.call_later(seconds, give_up, answer)
        try:
            return await answer
        finally:
            timer.cancel()

    def _arrive(self, frame: bytes, answer: asyncio.Future[bytes]) -> None:
        self._host.receive(frame, partial(settle, answer))

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


class _RpcHandlers:
    """The three gRPC methods of the server."""

    def __init__(self, ids: Ids, secret: ClusterSecret | None) -> None:
        self.host: EndpointHost | None = None
        self.conversations = ConversationServer(self._receive)
        self._secret = secret
        # Distinguishes this process from a later one that listens on the same port.
        self._process = ids.nonce()

    def _receive(self, frame: bytes, respond: Respond) -> None:
        assert self.host is not None
        self.host.receive(frame, respond)

    async def converse(self, context: Any) -> None:
        await self.conversations.converse(context)

    async def call(self, context: Any) -> None:
        """Answer a frame that is too large for the stream that the others share."""
        frame = await context.read()
        if frame is grpc.aio.EOF:
            return
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._receive(frame, partial(settle, answer))
        await context.write(await answer)

    async def hold(self, context: Any) -> None:
        """Send the identity of the running endpoint; the stream ends when the endpoint stops."""
        assert self.host is not None
        frame = await context.read()
        if frame is grpc.aio.EOF:
            return
        request = decode_presence_request(frame)
        hosted = self.host.find(request.endpoint)
        if hosted is None:
            return
        life = f"{self._process}-{hosted.number}"
        if request.known_life not in ("", life):
            return
        await context.write(life.encode())
        await hosted.gone.wait()

    def handler(self) -> Any:
        methods = {"Converse": self.converse, "Call": self.call, "Hold": self.hold}
        return grpc.method_handlers_generic_handler(
            "stoker.Rpc",
            {
                name: grpc.stream_stream_rpc_method_handler(self._for_members(serve))
                for name, serve in methods.items()
            },
        )

    def _for_members(self, serve: Serve) -> Any:
        """Serve callers that know the secret of the cluster; there is no method for others."""

        async def admit_and_serve(_requests: Any, context: Any) -> None:
            assert self.host is not None
            await admit(self._secret, self.host.address, context)
            await serve(context)

        return admit_and_serve


def _make_server(frame_limit: int) -> Any:
    return grpc.aio.server(
        options=[
            # Without this a second process could listen on a port that is in use.
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", message_limit(frame_limit)),
            ("grpc.max_send_message_length", -1),
            # Heartbeats find silent peers, so gRPC need not ping them.
            ("grpc.keepalive_time_ms", 2**31 - 1),
        ]
    )


def _bind(server: Any, host: str, ports: str, credentials: GrpcCredentials | None) -> int:
    for port in chain.from_iterable(parse_ports(ports, "the RPC port")):
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
    secret: ClusterSecret | None = None,
    advertised_host: str | None = None,
    ids: Ids | None = None,
    protocol_version: int = PROTOCOL_VERSION,
    metrics: MetricGroup | None = None,
) -> GrpcRpcService:
    """Listen on the first free one of `ports`; StartupFailed when none is free.

    Peers reach the service under `advertised_host`, which differs from `host` behind address
    translation or when it listens on all interfaces.

    Without `credentials`, callers and called services prove to each other that they know the
    `secret`. A service that has neither serves everybody: it is for tests.
    """
    chosen = options or RpcOptions()
    frame_limit = int(chosen.frame_size)
    server = _make_server(frame_limit)
    answers = _RpcHandlers(ids or Ids(), secret)
    server.add_generic_rpc_handlers((answers.handler(),))
    # The name also means ::1, and without TLS peers call 127.0.0.1 only.
    place = "127.0.0.1" if host == "localhost" and credentials is None else host
    port = _bind(server, place, ports, credentials)
    address = f"grpc://{advertised_host or host}:{port}"
    answers.host = EndpointHost(
        address, frame_limit=frame_limit, version=protocol_version, metrics=metrics
    )
    await server.start()
    peers = GrpcPeers(frame_limit, credentials.channel if credentials else None, secret)
    return GrpcRpcService(
        server, answers.host, answers.conversations, peers, chosen, protocol_version
    )

"""The calling side of gRPC: one connection for each peer, dropped when the peer is absent."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import grpc

from stoker.core.errors import (
    HandshakeFailed,
    InvalidInput,
    RecipientUnreachable,
    RemoteError,
    StokerError,
    TooLarge,
)
from stoker.rpc.admission import Greet, Greeting, greet_nobody
from stoker.rpc.conversation import LARGEST_FRAME, Conversation, message_limit
from stoker.rpc.wire import PresenceRequest, encode_presence_request
from stoker.security.binding import is_loopback
from stoker.security.cluster_secret import ClusterSecret

_CONNECT_SECONDS = 5.0
_PROBE_PAUSE_SECONDS = 0.5
"""Pause between probes of a peer that is silent or answers unexpectedly."""

_BROKEN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


class _Presence:
    """One stream that reports when an endpoint is gone, shared by all who wait for that."""

    def __init__(self, watching: "asyncio.Task[None]") -> None:
        self.watching = watching
        self.waiting = 0


class _Peer:
    def __init__(self, service: str, channel: Any, secret: ClusterSecret | None) -> None:
        self._service = service
        self._channel = channel
        self._secret = secret
        self.users = 0
        self._is_suspect = False
        self._is_closed = False
        self._conversation: Conversation | None = None

    @property
    def is_suspect(self) -> bool:
        """The peer was absent: the next call gets a new connection, without backoff."""
        conversation = self._conversation
        return self._is_suspect or (conversation is not None and conversation.is_over)

    def suspect(self) -> None:
        self._is_suspect = True

    @property
    def conversation(self) -> Conversation:
        if self._conversation is None:
            stream, greet = self._open("Converse")
            self._conversation = Conversation(stream, self._failure_of, greet)
        return self._conversation

    async def call(self, frame: bytes, seconds: float) -> bytes:
        """The answer to a frame that is too large for the conversation."""
        async with aclosing(self.answers("Call", frame, seconds)) as answers:
            async for answer in answers:
                return answer
        raise RecipientUnreachable(
            f"{self._service} has closed the connection", recipient=self._service
        )

    async def answers(
        self, method: str, request: bytes, seconds: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """All messages with which the peer answers one request."""
        stream, greet = self._open(method, timeout=seconds)
        try:
            await greet()
            # If the stream has just ended, the next read raises the reason.
            with suppress(asyncio.InvalidStateError):
                await stream.write(request)
                await stream.done_writing()
            while (answer := await stream.read()) is not grpc.aio.EOF:
                yield answer
        finally:
            stream.cancel()

    def _open(self, method: str, timeout: float | None = None) -> tuple[Any, Greet]:
        call = self._channel.stream_stream(f"/stoker.Rpc/{method}")
        if self._secret is None:
            return call(timeout=timeout), greet_nobody
        greeting = Greeting(self._secret, self._service)
        stream = call(timeout=timeout, metadata=greeting.metadata)
        return stream, partial(greeting.exchange, stream)

    def _failure_of(self, error: Any) -> Exception:
        if self._is_closed:
            return _connection_closed(self._service)
        if error is None:
            return RecipientUnreachable(
                f"{self._service} has closed the connection", recipient=self._service
            )
        if isinstance(error, StokerError):
            return error
        return _translate(error, self._service, is_late=False)

    async def close(self) -> None:
        self._is_closed = True
        if self._conversation is not None:
            await self._conversation.close()
        await self._channel.close()


def _authority(service: str) -> str:
    scheme, _, authority = service.partition("://")
    if scheme != "grpc":
        raise InvalidInput(f"{service} cannot be called over gRPC; an address starts with grpc://")
    return authority


class GrpcPeers:
    def __init__(
        self, frame_limit: int, credentials: Any | None, secret: ClusterSecret | None = None
    ) -> None:
        self._frame_limit = frame_limit
        self._credentials = credentials
        self._secret = secret
        self._peers: dict[str, _Peer] = {}
        self._open: set[_Peer] = set()
        """All open connections, also those that accept no new users."""
        self._presences: dict[tuple[str, str], _Presence] = {}
        self._watching: set[asyncio.Task[None]] = set()
        """All watching tasks until they have ended, also when nobody waits for them any more."""
        self._closed = False

    async def send(self, service: str, frame: bytes, seconds: float, /) -> bytes:
        async with self._using(service) as peer:
            try:
                if len(frame) <= LARGEST_FRAME:
                    return await peer.conversation.ask(frame, seconds)
                return await self._call(peer, service, frame, seconds)
            except asyncio.CancelledError:
                # Closing a channel cancels its calls, which to their callers means an absent peer.
                if self._closed and not _is_being_cancelled():
                    raise _connection_closed(service) from None
                raise

    async def _call(self, peer: _Peer, service: str, frame: bytes, seconds: float) -> bytes:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        try:
            answer = await peer.call(frame, seconds)
        except grpc.aio.AioRpcError as error:
            if error.code() in _BROKEN:
                peer.suspect()
            raise _translate(error, service, is_late=loop.time() >= deadline) from error
        except RecipientUnreachable:
            peer.suspect()
            raise
        return answer

    async def wait_until_gone(self, service: str, endpoint: str) -> None:
        # Every job master watches the task executors that work for it; one stream serves them all.
        place = (service, endpoint)
        presence = self._presences.get(place)
        if presence is None or presence.watching.done():
            watching = asyncio.create_task(self._watch(service, endpoint), name=f"hold {endpoint}")
            presence = self._presences[place] = _Presence(watching)
            self._watching.add(watching)
            watching.add_done_callback(self._watching.discard)
            watching.add_done_callback(lambda done: self._forget_presence(place, done))
        presence.waiting += 1
        try:
            await asyncio.shield(presence.watching)
        except asyncio.CancelledError:
            if self._closed and not _is_being_cancelled():
                raise _connection_closed(service) from None
            raise
        finally:
            presence.waiting -= 1
            if presence.waiting == 0:
                presence.watching.cancel()
                self._forget_presence(place, presence.watching)

    def _forget_presence(self, place: tuple[str, str], watching: "asyncio.Task[None]") -> None:
        """Later callers open a new stream."""
        presence = self._presences.get(place)
        if presence is not None and presence.watching is watching:
            del self._presences[place]

    async def _watch(self, service: str, endpoint: str) -> None:
        """Return when the endpoint is gone."""
        known_life = ""
        while True:
            async with self._using(service) as peer:
                request = encode_presence_request(
                    PresenceRequest(endpoint=endpoint, known_life=known_life)
                )
                try:
                    async with aclosing(peer.answers("Hold", request)) as lives:
                        async for life in lives:
                            known_life = life.decode()
                    return
                except RecipientUnreachable:
                    # Somebody else listens where the process was.
                    peer.suspect()
                    return
                except grpc.aio.AioRpcError:
                    peer.suspect()
                except asyncio.CancelledError:
                    if self._closed and not _is_being_cancelled():
                        raise _connection_closed(service) from None
                    raise
            # A broken connection proves nothing yet; a refused one proves that the process is gone.
            if await _is_refused(self._target(service)):
                return
            await asyncio.sleep(_PROBE_PAUSE_SECONDS)

    @asynccontextmanager
    async def _using(self, service: str) -> AsyncIterator[_Peer]:
        while (peer := self._peers.get(service)) is not None and peer.is_suspect:
            await self._drop(service, peer)
        if self._closed:
            raise _connection_closed(service)
        if peer is None:
            peer = self._peers[service] = _Peer(
                service, self._dial(self._target(service)), self._secret
            )
            self._open.add(peer)
        peer.users += 1
        try:
            yield peer
        finally:
            peer.users -= 1
            if peer.is_suspect:
                await self._drop(service, peer)

    async def _drop(self, service: str, peer: _Peer) -> None:
        """Accept no new users for the connection, and close it when it has none left."""
        if self._peers.get(service) is peer:
            del self._peers[service]
        if peer.users == 0 and peer in self._open:
            self._open.remove(peer)
            await peer.close()

    def _target(self, service: str) -> str:
        """Host and port to connect to; RecipientUnreachable where anybody might answer."""
        authority = _authority(service)
        if self._credentials is not None:
            return authority
        parts = urlsplit(f"//{authority}")
        if not is_loopback(parts.hostname or ""):
            raise RecipientUnreachable(
                f"{service} is not on this machine, and without security.ssl.internal.enabled "
                "processes of the cluster call each other on loopback only",
                recipient=service,
            )
        # The name also means ::1, where another user may listen on the same port.
        return f"127.0.0.1:{parts.port}" if parts.hostname == "localhost" else authority

    def _dial(self, target: str) -> Any:
        options = [
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
            ("grpc.min_reconnect_backoff_ms", int(_CONNECT_SECONDS * 1000)),
            # A connection of this service alone, and calls that are sent at most once.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_retries", 0),
            ("grpc.enable_http_proxy", 0),
            ("grpc.max_receive_message_length", message_limit(self._frame_limit)),
            ("grpc.max_send_message_length", -1),
        ]
        if self._credentials is None:
            return grpc.aio.insecure_channel(target, options=options)
        return grpc.aio.secure_channel(target, self._credentials, options=options)

    async def close(self) -> None:
        self._closed = True
        tasks = list(self._watching)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for peer in list(self._open):
            await peer.close()
        self._open.clear()
        self._peers.clear()


def _connection_closed(service: str) -> RecipientUnreachable:
    return RecipientUnreachable(f"this process has closed its connection to {service}")


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _translate(error: Any, service: str, *, is_late: bool) -> Exception:
    code, details = error.code(), error.details()
    # At the deadline the peer may cancel a moment before this side gives up.
    if code is grpc.StatusCode.DEADLINE_EXCEEDED or (is_late and code in _BROKEN):
        return TimeoutError(details)
    if code in _BROKEN:
        return RecipientUnreachable(f"cannot reach {service}: {details}", recipient=service)
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return HandshakeFailed(f"{service} refuses this process: {details}")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return HandshakeFailed(
            f"{service} speaks another protocol; use the same release of Stoker on both sides"
        )
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return TooLarge(f"{service} or this process refused a frame: {details}; see rpc.framesize")
    return RemoteError(f"the call to {service} failed as {code.name}: {details}", type=code.name)


async def _is_refused(authority: str) -> bool:
    parts = urlsplit(f"//{authority}")
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port)
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    writer.close()
    return False

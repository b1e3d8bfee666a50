"""Limits of connections: they hold before a request reaches the app, so before any token is known.

The REST port is the one that is meant to be opened to a network. Whoever reaches it can open
connections and send bytes, and each costs this process memory or a file descriptor, on the event
loop that also renews leases. So the number of connections is limited, in all and for each address,
and a client has to send the head of its request soon, in few bytes, and its body at a minimum rate.

uvicorn limits none of this with httptools, and its h11 parser, which limits the head, is several
times slower. So the limits are kept here, around uvicorn's protocol. Only what a client delays
counts against it: neither the time in which its request is handled, nor the time in which the app
does not read.

One task looks at all connections once a second, since a timer for each request would cost more than
everything else that is done here.
"""

import asyncio
import http
import resource
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from stoker.api.shape import RETRY_AFTER, Errors
from stoker.rest.http.asgi import CERTIFICATE, Scope
from stoker.rest.options import RestOptions
from stoker.security.material import common_name_of

SWEEP_SECONDS = 1.0
_BODY_GRACE_SECONDS = 10.0
"""How long a body may be slower than the minimum rate, so that a network may hesitate."""
_REST_SECONDS = 10.0
"""How long a client may go on sending a body whose request was answered, or not read an answer
before its connection closes."""
LOCAL_SOCKET = "local socket"
"""Stands for the address of a client that came through the Unix domain socket."""
LINGER_SECONDS = 2.0
"""How long a refused client may still send: if its connection were closed at once while it sends,
it would see a broken connection and not the answer."""
_MOST_DISCARDED = 1024 * 1024
"""Bytes that are read of a refused client."""
_STUCK_SECONDS = 600.0
"""How long a client may read nothing of its response: people pause their pagers."""
_DESCRIPTORS_FOR_REST = 0.5
"""Part of the file descriptors that connections may take; storage and RPC need some too."""
_HEADER_OVERHEAD = 4
"""Bytes around name and value: a colon, a space and the end of the line."""


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    connections: int
    connections_of_one: int
    head_bytes: int
    head_seconds: float
    body_rate: float
    """Bytes a second."""
    body_seconds: float


def connection_limits(options: RestOptions) -> ConnectionLimits:
    connections = options.max_connections
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors != resource.RLIM_INFINITY:
        connections = min(connections, int(descriptors * _DESCRIPTORS_FOR_REST))
    # One address never takes all connections.
    of_one = min(options.max_connections_per_address, max(1, connections * 3 // 4))
    return ConnectionLimits(
        connections=connections,
        connections_of_one=of_one,
        head_bytes=options.max_header_size,
        head_seconds=options.header_timeout.total_seconds(),
        body_rate=options.min_body_rate,
        body_seconds=options.body_timeout.total_seconds(),
    )


@dataclass
class OpenConnections:
    """All open connections of a server."""

    limits: ConnectionLimits
    open: "set[LimitedProtocol]" = field(default_factory=set)
    by_address: Counter[str] = field(default_factory=Counter)
    handshakes: int = 0
    """OpenConnections that are accepted, and have no protocol yet."""

    def find_refusal(self, address: str) -> str | None:
        """Why this address gets no further connection, or None."""
        connections = len(self.open) + self.handshakes
        if connections >= self.limits.connections:
            return f"this server has {connections} connections, which is its limit"
        if self.by_address[address] >= self.limits.connections_of_one:
            return f"{address} has {self.by_address[address]} connections, which is the limit"
        return None

    def add(self, connection: "LimitedProtocol", address: str) -> None:
        self.open.add(connection)
        self.by_address[address] += 1

    def remove(self, connection: "LimitedProtocol", address: str) -> None:
        if connection not in self.open:
            return
        self.open.remove(connection)
        self._forget(address)

    @contextmanager
    def counting_handshake(self, address: str) -> Iterator[None]:
        """A connection that has no protocol yet counts for its address."""
        self.by_address[address] += 1
        self.handshakes += 1
        try:
            yield
        finally:
            self.handshakes -= 1
            self._forget(address)

    def _forget(self, address: str) -> None:
        self.by_address[address] -= 1
        if not self.by_address[address]:
            del self.by_address[address]

    async def sweep_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            # Whatever the clock says: what arrived while this process was frozen or busy has not
            # been read yet, and no client is to blame for that.
            for connection in tuple(self.open):
                connection.check(SWEEP_SECONDS)


class LimitedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, connections: OpenConnections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._connections = connections
        self._limits = connections.limits
        self._address = ""
        self._certificate: str | None = None
        """Common name of the certificate that the client has shown."""
        self._refused = False
        """Whether the connection is about to close, and what arrives is ignored."""
        self._lingered = 0.0
        self._discarded = 0
        self._in_head = True
        """Whether the next bytes belong to a head, or to the gap before it."""
        self._has_begun = False
        """Whether a part of the next request has arrived."""
        self._has_ended = False
        """Whether a request ended in the data that arrived last."""
        self._head_bytes = 0
        self._most_head_bytes = 0
        """What has arrived since the head began, with what may follow it."""
        self._head_waited: float | None = None
        """How long the server has waited for the rest of a head; None if it does not wait."""
        self._in_body = False
        self._body_bytes = 0
        self._body_waited = 0.0
        self._rest_waited = 0.0
        self._stuck = 0.0
        """For how long the client has read nothing although something is to be sent."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if transport.get_extra_info("socket").family == socket.AF_UNIX:
            self.client = (LOCAL_SOCKET, 0)
        self._address = self.client[0] if self.client else "unknown"
        self._certificate = common_name_of(transport.get_extra_info("peercert"))
        reason = self._connections.find_refusal(self._address)
        if reason is not None:
            # No lingering: what is beyond the limit must not stay.
            self._refused = True
            transport.write(raw_response(503, f"{reason}; try again"))
            transport.close()
            return
        self._connections.add(self, self._address)
        self._head_waited = 0.0

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self, self._address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            self._discard(len(data))
            return
        self._has_ended = False
        self._most_head_bytes = self._head_bytes + len(data)
        super().data_received(data)
        if not self._in_head or self._refused:
            return
        if not self._has_ended:
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.head_bytes:
                self._refuse_head()
                return
        elif not self._has_begun:
            # Between two requests uvicorn limits the time.
            return
        if self._head_waited is None:
            self._head_waited = 0.0

    def _discard(self, size: int) -> None:
        """Read on for the sake of the client, but not for as much as it likes to send."""
        self._discarded += size
        if self._discarded > _MOST_DISCARDED and not self.transport.is_closing():
            self.flow.pause_reading()

    def on_message_begin(self) -> None:
        self._has_begun = True
        super().on_message_begin()
        if self._certificate is not None:
            cast(Scope, self.scope)[CERTIFICATE] = self._certificate

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        self._head_waited = None
        most = self._limits.head_bytes
        if self._most_head_bytes > most and _size_of_head(self.url, self.headers) > most:
            self._refuse_head()
            return
        self._in_body = True
        self._body_bytes = 0
        self._body_waited = self._rest_waited = 0.0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._refused:
            return
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body = self._has_begun = False
        self._in_head = self._has_ended = True
        if not self._refused:
            super().on_message_complete()

    def check(self, elapsed: float) -> None:
        """Close the connection if its client is too slow; so much time passed since the last."""
        limits = self._limits
        is_stuck = self.transport.is_closing() or self.flow.write_paused
        self._stuck = self._stuck + elapsed if is_stuck else 0.0
        if self._stuck > (_REST_SECONDS if self.transport.is_closing() else _STUCK_SECONDS):
            self.transport.abort()
        elif self.transport.is_closing():
            return
        elif self._refused:
            self._lingered += elapsed
            if self._lingered > LINGER_SECONDS:
                self.transport.close()
        elif self._in_head:
            if self._head_waited is None or self._is_answering():
                return
            self._head_waited += elapsed
            if self._head_waited > limits.head_seconds:
                self._refuse(408, f"no complete request arrived in {limits.head_seconds:g} s")
        elif self._in_body and not self._is_answering():
            self._rest_waited += elapsed
            if self._rest_waited > _REST_SECONDS:
                self._end()
        elif self._in_body and not self.flow.read_paused:
            self._check_body(elapsed)

    def _check_body(self, elapsed: float) -> None:
        limits = self._limits
        self._body_waited += elapsed
        measured = self._body_waited - _BODY_GRACE_SECONDS
        if self._body_waited > limits.body_seconds:
            self._refuse(408, f"the body took longer than {limits.body_seconds:g} s")
        elif self._body_bytes < measured * limits.body_rate:
            self._refuse(408, f"the body arrives at less than {limits.body_rate:g} bytes a second")

    def _is_answering(self) -> bool:
        """Whether a request is being handled whose response is not complete."""
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse_head(self) -> None:
        self._refuse(431, f"the head of the request is larger than {self._limits.head_bytes} bytes")

    def _refuse(self, status: int, reason: str) -> None:
        """Answer, unless a response has begun, and close."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            # Tells the handler that its client is gone; it sends nothing any more.
            cycle.disconnected = True
            cycle.message_event.set()
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self.transport.write(raw_response(status, reason))
        self._end()

    def _end(self) -> None:
        """Close the connection, but let its client read what was sent."""
        self._refused = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()


def _size_of_head(url: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    return len(url) + sum(len(name) + len(value) + _HEADER_OVERHEAD for name, value in headers)


def raw_response(status: int, reason: str, headers: tuple[tuple[str, str], ...] = ()) -> bytes:
    """A whole response that closes its connection."""
    body = msgspec.json.encode(Errors(errors=[reason]))
    retry = ((RETRY_AFTER, "1"),) if status == http.HTTPStatus.SERVICE_UNAVAILABLE else ()
    lines = [
        f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        "connection: close",
        "x-content-type-options: nosniff",
        *(f"{name}: {value}" for name, value in (*retry, *headers)),
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body

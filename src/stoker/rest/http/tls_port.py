"""The port of a server with TLS, which also answers those who speak plain HTTP to it.

A TLS server that gets `GET / HTTP/1.1` can only break the connection, and nobody learns from that
what is wrong. So the first byte of a connection is looked at, without taking it: 22 begins a TLS
handshake, anything else is answered in clear by a redirection to https://. A request that may have
a body is refused, because what it says has crossed the network in clear: it must not look accepted.

The target of the redirection is the address of this server, never what the client sent as Host.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable

from stoker.aio.scope import TaskScope
from stoker.rest.http.connections import LINGER_SECONDS, OpenConnections, raw_response

log = logging.getLogger(__name__)

_HANDSHAKE = b"\x16"
_RETRY_SECONDS = 1.0
"""Pause after a failure to accept, such as too many open files."""
_REDIRECTED_METHODS = ("GET", "HEAD")
_END_OF_HEAD = b"\r\n\r\n"

MakeProtocol = Callable[[], asyncio.Protocol]


async def accept_connections(
    listener: socket.socket,
    context: ssl.SSLContext,
    make_protocol: MakeProtocol,
    connections: OpenConnections,
    url: str,
) -> None:
    """Accept connections until cancelled. `url` is the address of this server."""
    loop = asyncio.get_running_loop()
    listener.setblocking(False)
    async with TaskScope("tls-port") as scope:
        while True:
            try:
                accepted, address = await loop.sock_accept(listener)
            except OSError as error:
                log.warning("no connection can be accepted: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if connections.find_refusal(address[0]) is not None:
                # An answer would need a handshake, which costs more than the connection.
                accepted.close()
                continue
            greeting = _greet(accepted, address[0], context, make_protocol, connections, url)
            scope.spawn("greeting", greeting)


async def _greet(
    accepted: socket.socket,
    address: str,
    context: ssl.SSLContext,
    make_protocol: MakeProtocol,
    connections: OpenConnections,
    url: str,
) -> None:
    loop = asyncio.get_running_loop()
    seconds = connections.limits.head_seconds
    with connections.counting_handshake(address), contextlib.suppress(OSError, TimeoutError):
        try:
            async with asyncio.timeout(seconds):
                first = await _peek(accepted)
            if first == _HANDSHAKE:
                await loop.connect_accepted_socket(
                    make_protocol, accepted, ssl=context, ssl_handshake_timeout=seconds
                )
            elif first:
                async with asyncio.timeout(seconds):
                    await _redirect(accepted, connections.limits.head_bytes, url)
        except (OSError, TimeoutError):
            accepted.close()
            raise
        if first != _HANDSHAKE:
            accepted.close()


async def _peek(accepted: socket.socket) -> bytes:
    """The first byte, which stays to be read; empty when the client has closed the connection."""
    accepted.setblocking(False)
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()

    def set_readable() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(accepted, set_readable)
    try:
        await readable
    finally:
        loop.remove_reader(accepted)
    return accepted.recv(1, socket.MSG_PEEK)


async def _redirect(accepted: socket.socket, most: int, url: str) -> None:
    loop = asyncio.get_running_loop()
    head = b""
    while _END_OF_HEAD not in head and len(head) < most:
        piece = await loop.sock_recv(accepted, 4096)
        if not piece:
            break
        head += piece
    await loop.sock_sendall(accepted, plain_answer(head, url))
    # A client whose connection closes while it sends would not see the answer.
    accepted.shutdown(socket.SHUT_WR)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while await loop.sock_recv(accepted, 65536):
                pass


def plain_answer(head: bytes, url: str) -> bytes:
    """The answer to a request in plain HTTP, of which this is the beginning."""
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    target = rest.rpartition(" ")[0]
    reason = f"this port speaks TLS: use {url}"
    if method not in _REDIRECTED_METHODS or not target.startswith("/") or not target.isprintable():
        return raw_response(400, reason)
    return raw_response(307, reason, (("location", f"{url}{target}"),))

"""Requests and responses over ASGI, as far as handlers need them."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, MutableMapping, Sequence
from contextlib import aclosing
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from stoker.core.errors import InvalidInput, TooLarge

if TYPE_CHECKING:
    from stoker.rest.http.access import Requester

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON = "application/json"
CALLER = "stoker.caller"
"""Key of the caller in the scope of a request that was admitted."""
CERTIFICATE = "stoker.certificate"
"""Key of the common name of the client's certificate in the scope; absent without one."""
MAX_BODY_BYTES = 10_000_000
"""Limit of a body that is read into memory; uploads are streamed and have limits of their own."""


class Request:
    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.receive = receive
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        """Without the prefix /v1."""
        self._scope = scope

    @property
    def is_secure(self) -> bool:
        """Whether the request came over TLS, as far as this server knows."""
        return bool(self._scope.get("scheme") == "https")

    @property
    def certificate(self) -> str | None:
        """Common name of the certificate that the client has shown."""
        name: str | None = self._scope.get(CERTIFICATE)
        return name

    @property
    def caller(self) -> "Requester":
        caller: Requester = self._scope[CALLER]
        return caller

    @cached_property
    def headers(self) -> dict[str, str]:
        """Names are in lower case."""
        return {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in self._scope["headers"]
        }

    @cached_property
    def query(self) -> dict[str, str]:
        """The last value of each parameter."""
        return parse_query_string(self._scope["query_string"])

    @property
    def content_length(self) -> int | None:
        """The length that the request declares; None when the body comes in chunks."""
        text = self.headers.get("content-length")
        return int(text) if text and text.isascii() and text.isdigit() else None

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it arrives; the caller has to limit its size."""
        more = True
        while more:
            message = await self.receive()
            if message["type"] != "http.request":
                raise InvalidInput("the client disconnected during its request")
            more = message.get("more_body", False)
            yield message.get("body", b"")

    async def body(self) -> bytes:
        if (self.content_length or 0) > MAX_BODY_BYTES:
            raise _body_too_large()
        body = bytearray()
        async for chunk in self.chunks():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise _body_too_large()
        return bytes(body)


def parse_query_string(query: bytes) -> dict[str, str]:
    return dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))


def _body_too_large() -> TooLarge:
    return TooLarge(f"the body of the request is larger than {MAX_BODY_BYTES} bytes")


class Response:
    """A response with a complete body, in one piece or in several.

    A body of megabytes stays in pieces that responses share, since joining them would copy it.
    """

    def __init__(
        self,
        body: bytes | Sequence[bytes],
        *,
        status: int = 200,
        media_type: str | None = JSON,
        headers: Iterable[tuple[str, str]] = (),
    ) -> None:
        """A response without a media type has no body."""
        self._pieces = (body,) if isinstance(body, bytes) else body
        self._status = status
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers]
        if media_type is not None:
            length = sum(map(len, self._pieces))
            self._headers.append((b"content-type", media_type.encode()))
            self._headers.append((b"content-length", str(length).encode()))

    async def send(self, _receive: Receive, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": self._status, "headers": self._headers}
        )
        for piece in self._pieces[:-1]:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            # Lets other tasks run between the pieces of a body of megabytes.
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": self._pieces[-1], "more_body": False})


class Stream:
    """A response whose body is produced while it is sent, until it ends or the client leaves."""

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        *,
        media_type: str,
        patience: float | None = None,
    ) -> None:
        """`patience`: seconds for which the client may take nothing; None for no limit."""
        self._chunks = chunks
        self._patience = patience
        self._media_type = media_type

    async def send(self, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(send), name="stream")
        disconnected = asyncio.create_task(_wait_for_disconnect(receive), name="disconnected")
        try:
            await asyncio.wait({sending, disconnected}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            sending.cancel()
            disconnected.cancel()
            await asyncio.gather(sending, disconnected, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        headers = [(b"content-type", self._media_type.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with aclosing(self._chunks) as chunks:
            async for chunk in chunks:
                try:
                    async with asyncio.timeout(self._patience):
                        message = {"type": "http.response.body", "body": chunk, "more_body": True}
                        await send(message)
                except TimeoutError:
                    # A response that is left incomplete closes its connection.
                    log.info("a client that reads nothing loses its stream")
                    return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

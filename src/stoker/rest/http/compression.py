"""Compression of responses for clients that accept gzip."""

import asyncio
import zlib

from stoker.rest.http.asgi import Message, Send

MIN_BYTES = 1024
MAX_BYTES = 1024 * 1024
"""Compressing a larger response takes longer than sending it; clients can ask for pages instead."""
_MAX_INLINE_BYTES = 64 * 1024
"""A larger body is compressed in a thread."""
_LEVEL = 1
"""Responses are so repetitive that higher levels gain little."""
_GZIP = 16 + zlib.MAX_WBITS
_TYPES = (b"application/json", b"text/html", b"text/plain", b"text/css", b"text/javascript")


def accepts_gzip(header: bytes | None) -> bool:
    """Whether the header accepts gzip; `gzip;q=0` does not."""
    for part in (header or b"").lower().split(b","):
        name, _, quality = part.partition(b";")
        if name.strip() in (b"gzip", b"*"):
            return quality.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False


class Compressor:
    """Compresses a large body that several responses share once."""

    def __init__(self) -> None:
        self._body = b""
        self._packed: asyncio.Future[bytes] | None = None

    async def compressed(self, body: bytes) -> bytes:
        if len(body) < _MAX_INLINE_BYTES:
            return _compress(body)
        if self._packed is None or body is not self._body:
            self._body = body
            self._packed = asyncio.ensure_future(asyncio.to_thread(_compress, body))
        # A request that is cancelled does not cancel the compression for the others.
        return await asyncio.shield(self._packed)


class CompressingSend:
    """A `send` that compresses responses of one piece; those of several pass unchanged."""

    def __init__(self, send: Send, compressor: Compressor) -> None:
        self._send = send
        self._compressor = compressor
        self._start: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_compressible(message):
            self._start = message
            return
        if message["type"] == "http.response.body" and self._start is not None:
            start, self._start = self._start, None
            body = message["body"]
            if not message["more_body"] and MIN_BYTES <= len(body) <= MAX_BYTES:
                body = await self._compressor.compressed(body)
                kept = [each for each in start["headers"] if each[0] != b"content-length"]
                start["headers"] = [
                    *kept,
                    (b"content-length", str(len(body)).encode()),
                    (b"content-encoding", b"gzip"),
                    (b"vary", b"accept-encoding"),
                ]
                message["body"] = body
            await self._send(start)
        await self._send(message)


def _is_compressible(start: Message) -> bool:
    headers = dict(start["headers"])
    kind = headers.get(b"content-type", b"")
    return b"content-encoding" not in headers and kind.startswith(_TYPES)


def _compress(body: bytes) -> bytes:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return packer.compress(body) + packer.flush()

"""Answers are compressed for clients that say they can read it."""

import asyncio
import zlib

from stoker.rest.http.asgi import Message, Send

MINIMUM = 1024
MAXIMUM = 1024 * 1024
"""Larger ones would take more of the processor than their way takes time: pages are for them."""
_IN_THE_LOOP = 64 * 1024
_LEVEL = 1
"""Answers repeat themselves so much that more effort gains little."""
_GZIP = 16 + zlib.MAX_WBITS
_TYPES = (b"application/json", b"text/html", b"text/plain", b"text/css", b"text/javascript")


def accepts_gzip(header: bytes | None) -> bool:
    """`gzip;q=0` refuses it."""
    for part in (header or b"").lower().split(b","):
        name, _, quality = part.partition(b";")
        if name.strip() in (b"gzip", b"*"):
            return quality.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False


class Compressor:
    """Of one server: a large body that several are answered with is compressed once."""

    def __init__(self) -> None:
        self._body = b""
        self._packed: asyncio.Future[bytes] | None = None

    async def compressed(self, body: bytes) -> bytes:
        if len(body) < _IN_THE_LOOP:
            return _compress(body)
        if self._packed is None or body is not self._body:
            self._body = body
            self._packed = asyncio.ensure_future(asyncio.to_thread(_compress, body))
        # One who gives up does not give up for the others.
        return await asyncio.shield(self._packed)


class Compressing:
    """Sends whole answers compressed; those that come in pieces go as they are."""

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
            if not message["more_body"] and MINIMUM <= len(body) <= MAXIMUM:
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

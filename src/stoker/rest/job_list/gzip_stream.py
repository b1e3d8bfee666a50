"""A gzip stream put together from parts that were packed before, each by itself.

A part ends at the border of a byte and refers to nothing before it, so parts can follow each other
in any order, and one that is sent a thousand times is packed once. One that will be another the
next time is not worth packing: it is stored in the stream as it is.
"""

import functools
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_LEVEL = 1
"""Answers repeat themselves so much that more effort gains little."""
_RAW = -zlib.MAX_WBITS
_HEADER = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
"""Of no known time and no known system."""
_LAST_BLOCK = b"\x03\x00"
"""Of a stream that ends here."""
_POLYNOMIAL = 0xEDB88320
"""Of CRC-32, its lowest power in the highest bit, as all polynomials here."""
_ONE = 1 << 31
_X = 1 << 30


@dataclass(frozen=True)
class Part:
    deflated: bytes
    size: int
    """Of what was packed."""
    checksum: int


def packed(content: bytes | memoryview) -> Part:
    return _part(content, _LEVEL)


def stored(content: bytes | memoryview) -> Part:
    return _part(content, 0)


def _part(content: bytes | memoryview, level: int) -> Part:
    packer = zlib.compressobj(level, zlib.DEFLATED, _RAW)
    deflated = packer.compress(content) + packer.flush(zlib.Z_FULL_FLUSH)
    return Part(deflated, len(content), zlib.crc32(content))


def gzip_stream(parts: Iterable[Part], chunk: int) -> tuple[bytes, ...]:
    """In pieces of about so many bytes."""
    return tuple(_gathered(_stream(parts), chunk))


def _stream(parts: Iterable[Part]) -> Iterator[bytes]:
    yield _HEADER
    checksum = size = 0
    for part in parts:
        yield part.deflated
        checksum = joined_checksum(checksum, part.checksum, part.size)
        size += part.size
    yield _LAST_BLOCK + checksum.to_bytes(4, "little") + (size % 2**32).to_bytes(4, "little")


def _gathered(pieces: Iterable[bytes], chunk: int) -> Iterator[bytes]:
    waiting: list[bytes] = []
    length = 0
    for piece in pieces:
        waiting.append(piece)
        length += len(piece)
        if length >= chunk:
            yield b"".join(waiting)
            waiting, length = [], 0
    if waiting:
        yield b"".join(waiting)


def joined_checksum(first: int, second: int, size: int) -> int:
    """CRC-32 of two contents, one after the other, from that of each and the size of the second."""
    return _product(_power(8 * size), first) ^ second


@functools.lru_cache(maxsize=4096)
def _power(exponent: int) -> int:
    """x to this power, modulo the polynomial."""
    result, square = _ONE, _X
    while exponent:
        if exponent & 1:
            result = _product(square, result)
        square = _product(square, square)
        exponent >>= 1
    return result


def _product(one: int, other: int) -> int:
    """Modulo the polynomial."""
    result = 0
    while one:
        if one & _ONE:
            result ^= other
        one = (one << 1) & 0xFFFFFFFF
        other = (other >> 1) ^ (_POLYNOMIAL if other & 1 else 0)
    return result

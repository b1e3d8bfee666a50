"""A long list of jobs, compressed without the work of compressing it for each answer.

What is said of jobs that have ended stays as it is. A block of them is packed once, in a thread,
as soon as it has been asked for a few times without a change; until then it is sent as it is, as
are those that live.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from stoker.rest.job_list.gzip_stream import Part, gzip_stream, packed, stored
from stoker.rest.job_list.rows import Piece

LASTING = 3
"""So often was a piece asked for, and has not changed: it is worth being packed."""
_CHUNK = 512 * 1024
_COMMA = stored(b",")


class ListPacker:
    def __init__(self) -> None:
        self._waiting: deque[Piece] = deque()
        self._packing: asyncio.Task[None] | None = None

    def stream(self, pieces: Sequence[Piece], before: bytes, after: bytes) -> tuple[bytes, ...]:
        """The JSON array of all of them, with what stands before and after it."""
        parts = [stored(before + b"[")]
        for piece in pieces:
            if len(parts) > 1:
                parts.append(_COMMA)
            parts.append(self._part(piece))
        return gzip_stream([*parts, stored(b"]" + after)], _CHUNK)

    def _part(self, piece: Piece) -> Part:
        if piece.part is not None:
            return piece.part
        piece.asked += 1
        if piece.lasts and piece.asked == LASTING:
            self._pack_later(piece)
        return stored(piece.without_comma)

    def _pack_later(self, piece: Piece) -> None:
        self._waiting.append(piece)
        if self._packing is None or self._packing.done():
            self._packing = asyncio.create_task(self._pack(), name="pack-job-list")

    async def _pack(self) -> None:
        """One at a time: others need the threads too."""
        while self._waiting:
            piece = self._waiting.popleft()
            piece.part = await asyncio.to_thread(packed, piece.without_comma)

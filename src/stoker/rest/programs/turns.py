"""Limits how many uploaded programs are compiled at once.

Each compilation is a Python process of up to some gigabytes that may take a minute, so a client
with a few concurrent requests could use up the memory and the processors of the master's machine.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stoker.core.errors import Unavailable

_MOST_WAITING = 32


class CompilationTurns:
    def __init__(self) -> None:
        self._free: asyncio.Semaphore | None = None
        self._waiting = 0

    @asynccontextmanager
    async def turn(self, limit: int) -> AsyncIterator[None]:
        """Wait for a turn, in order of arrival. Raises Unavailable when too many wait already."""
        if self._free is None:
            self._free = asyncio.Semaphore(max(1, limit))
        if self._waiting >= _MOST_WAITING:
            raise Unavailable(
                f"{limit} programs define their jobs, and {self._waiting} wait for that; try again"
            )
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()

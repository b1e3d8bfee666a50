"""Who goes first when a master has several things to do: those who hand in jobs.

A list of thousands of jobs takes as long to send as a job takes to be accepted. Whoever asks for it
can wait a moment; whoever hands in a job should not notice that somebody asks.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

LONGEST_WAIT_SECONDS = 0.025
"""However many jobs are handed in, lists are answered."""


class Precedence:
    def __init__(self) -> None:
        self._first = 0
        self._nobody: asyncio.Event | None = None

    @contextmanager
    def first(self) -> Iterator[None]:
        """Others wait meanwhile."""
        self._first += 1
        try:
            yield
        finally:
            self._first -= 1
            if not self._first and self._nobody is not None:
                self._nobody.set()
                self._nobody = None

    def patience(self) -> float:
        """Until when somebody who asks now will wait at most."""
        return asyncio.get_running_loop().time() + LONGEST_WAIT_SECONDS

    async def give_way(self, until: float) -> None:
        """Returns when nobody has to be let pass, or at that time of the loop's clock."""
        if not self._first:
            return
        if self._nobody is None:
            self._nobody = asyncio.Event()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._nobody.wait()

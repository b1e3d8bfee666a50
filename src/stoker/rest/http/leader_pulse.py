"""Whether the leading master still answers, found out once for all requests that wait for it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx

LOOK_SECONDS = 0.25
ASK_SECONDS = 1.0
ANSWER_SECONDS = 3.0
"""A process that takes longer for a small question is frozen, or as good as that."""
_ANSWERED_BY_EVERY_MASTER = "/v1/config"


class LeaderPulse:
    """Asks a master small questions for as long as somebody waits for a large one."""

    def __init__(
        self, url: str, http: httpx.AsyncClient, leader_url: Callable[[], str | None]
    ) -> None:
        self.url = url
        self._http = http
        self._leader_url = leader_url
        self._waiting = 0
        self._task: asyncio.Task[str] | None = None

    @asynccontextmanager
    async def felt(self) -> AsyncIterator["asyncio.Task[str]"]:
        """A task that ends, with the reason, when it is of no use to wait any longer."""
        if self._task is None:
            self._task = asyncio.create_task(self._until_silent(), name=f"pulse {self.url}")
        task = self._task
        self._waiting += 1
        try:
            yield task
        finally:
            self._waiting -= 1
            if not self._waiting:
                # At once, so that who comes now begins anew.
                self._task = None
                task.cancel()
                await asyncio.wait({task})

    async def _until_silent(self) -> str:
        loop = asyncio.get_running_loop()
        while True:
            ask_at = loop.time() + ASK_SECONDS
            while loop.time() < ask_at:
                if self._leader_url() != self.url:
                    return "does not lead any more"
                await asyncio.sleep(LOOK_SECONDS)
            if (silence := await self._silence()) is not None:
                return silence

    async def _silence(self) -> str | None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._http.get(self.url + _ANSWERED_BY_EVERY_MASTER)
        except TimeoutError:
            return f"has been silent for {ANSWER_SECONDS:g} s"
        except httpx.TransportError as error:
            return f"does not answer: {error!r}"
        return None

"""Detects whether the leading master still answers, once for all requests that wait for it.

A forwarded request may take minutes (a large file, a long poll), so its own silence says nothing.
While any request waits, the standby pings the leader; when a ping fails or the leader changes, all
waiting requests end with the reason.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx

CHECK_LEADER_SECONDS = 0.25
PING_INTERVAL_SECONDS = 1.0
PING_TIMEOUT_SECONDS = 3.0
"""A process that takes longer for a small request counts as frozen."""
_PING_PATH = "/v1/config"


class LeaderPulse:
    """Pings one master while requests to it are in progress."""

    def __init__(
        self, url: str, http: httpx.AsyncClient, leader_url: Callable[[], str | None]
    ) -> None:
        self.url = url
        self._http = http
        self._leader_url = leader_url
        self._waiting = 0
        self._task: asyncio.Task[str] | None = None

    @asynccontextmanager
    async def watch(self) -> AsyncIterator["asyncio.Task[str]"]:
        """Yields a task that ends when waiting is futile; its result is the reason."""
        if self._task is None:
            self._task = asyncio.create_task(self._ping_until_silent(), name=f"pulse {self.url}")
        task = self._task
        self._waiting += 1
        try:
            yield task
        finally:
            self._waiting -= 1
            if not self._waiting:
                # Forgotten before it has ended, so that the next request starts another one.
                self._task = None
                task.cancel()
                await asyncio.wait({task})

    async def _ping_until_silent(self) -> str:
        loop = asyncio.get_running_loop()
        while True:
            ask_at = loop.time() + PING_INTERVAL_SECONDS
            while loop.time() < ask_at:
                if self._leader_url() != self.url:
                    return "no longer leads"
                await asyncio.sleep(CHECK_LEADER_SECONDS)
            if (silence := await self._ping()) is not None:
                return silence

    async def _ping(self) -> str | None:
        try:
            async with asyncio.timeout(PING_TIMEOUT_SECONDS):
                await self._http.get(self.url + _PING_PATH)
        except TimeoutError:
            return f"has been silent for {PING_TIMEOUT_SECONDS:g} s"
        except httpx.TransportError as error:
            return f"does not answer: {error!r}"
        return None

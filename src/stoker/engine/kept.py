"""Keeping a child process running: started again, with growing pauses, when it died."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Generic, Protocol, TypeVar

from stoker.core.errors import StartupFailed, StokerError
from stoker.engine.contract import EngineState

logger = logging.getLogger(__name__)

_STARTS_BEFORE_BROKEN = 3


class Mortal(Protocol):
    @property
    def died(self) -> "asyncio.Task[str]":
        """Gives the reason in words once it is gone."""
        ...


M = TypeVar("M", bound=Mortal)


class Kept(Generic[M]):
    def __init__(
        self,
        name: str,
        start: Callable[[], AbstractAsyncContextManager[M]],
        *,
        restart_delay: timedelta,
        max_restart_delay: timedelta,
    ) -> None:
        self._name = name
        self._start = start
        self._delay = restart_delay.total_seconds()
        self._max_delay = max_restart_delay.total_seconds()
        self._changed = asyncio.Condition()
        self._failed_starts = 0
        self._deaths = 0
        self._lives = 0
        self._reason: StokerError | None = None
        self.current: M | None = None

    @property
    def state(self) -> EngineState:
        if self.current is not None:
            return EngineState.READY
        if self._failed_starts >= _STARTS_BEFORE_BROKEN:
            return EngineState.BROKEN
        return EngineState.RESTARTING if self._lives else EngineState.STARTING

    async def get(self) -> M:
        """The running one, waited for; raises StartupFailed when it will not start."""
        async with self._changed:
            while self.current is None:
                if self.state is EngineState.BROKEN:
                    raise self._reason or StartupFailed(f"{self._name} does not start")
                await self._changed.wait()
            return self.current

    async def run(self) -> None:
        while True:
            started = asyncio.get_running_loop().time()
            try:
                await self._live_once()
                self._deaths += 1
            except StartupFailed as failure:
                logger.warning("%s: %s", self._name, failure)
                self._failed_starts += 1
                self._deaths += 1
                await self._set(None, failure)
            if asyncio.get_running_loop().time() - started > self._max_delay:
                self._deaths = 1
            # Capped before it is raised: a power of an endless count would overflow.
            factor = 2 ** min(self._deaths - 1, 16)
            await asyncio.sleep(min(self._delay * factor, self._max_delay))

    async def _live_once(self) -> None:
        async with self._start() as thing:
            self._failed_starts = 0
            self._lives += 1
            await self._set(thing, None)
            try:
                reason = await asyncio.shield(thing.died)
                logger.warning("%s died: %s; starting another", self._name, reason)
            finally:
                self.current = None

    async def _set(self, thing: M | None, reason: StokerError | None) -> None:
        async with self._changed:
            self.current = thing
            self._reason = reason
            self._changed.notify_all()

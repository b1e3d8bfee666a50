"""Keeping a child process running: started again when it died, replaced when it has grown old."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
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


@dataclass(eq=False)
class _Life(Generic[M]):
    """From the start of one process to its end."""

    up: asyncio.Event = field(default_factory=asyncio.Event)
    thing: M | None = None
    unused: asyncio.Event = field(default_factory=asyncio.Event)
    """Nobody needs it any more: it may be stopped."""


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
        self._replacement_wanted = asyncio.Event()
        self._replaced_once = asyncio.Event()
        self._lives: dict[asyncio.Task[None], _Life[M]] = {}
        self._failed_starts = 0
        self._deaths = 0
        self._started_before = False
        self._reason: StokerError | None = None
        self.current: M | None = None

    @property
    def state(self) -> EngineState:
        if self.current is not None:
            return EngineState.READY
        if self._failed_starts >= _STARTS_BEFORE_BROKEN:
            return EngineState.BROKEN
        return EngineState.RESTARTING if self._started_before else EngineState.STARTING

    async def get(self) -> M:
        """The running one, waited for; raises StartupFailed when it will not start."""
        async with self._changed:
            # One that has just died is still there for a moment.
            while self.current is None or self.current.died.done():
                if self.state is EngineState.BROKEN:
                    raise self._reason or StartupFailed(f"{self._name} does not start")
                await self._changed.wait()
            return self.current

    def replace(self) -> None:
        """Start another; when it is up it is the current one, and the former may be let go."""
        self._replaced_once = asyncio.Event()
        self._replacement_wanted.set()

    async def wait_until_replaced(self) -> None:
        """Another one is there, or could not be started."""
        await self._replaced_once.wait()

    def let_go(self, thing: M) -> None:
        """Nobody uses this one any more: if another has taken its place, it is stopped."""
        for life in self._lives.values():
            if life.thing is thing and thing is not self.current:
                life.unused.set()

    def is_let_go(self, thing: M) -> bool:
        return not any(
            life.thing is thing and not life.unused.is_set() for life in self._lives.values()
        )

    async def run(self) -> None:
        try:
            while True:
                started = asyncio.get_running_loop().time()
                try:
                    await self._keep_one()
                except StartupFailed as failure:
                    logger.warning("%s: %s", self._name, failure)
                    self._failed_starts += 1
                    await self._set(None, failure)
                self._deaths += 1
                if asyncio.get_running_loop().time() - started > self._max_delay:
                    self._deaths = 1
                # Capped before it is raised: a power of an endless count would overflow.
                factor = 2 ** min(self._deaths - 1, 16)
                await asyncio.sleep(min(self._delay * factor, self._max_delay))
        finally:
            for task in self._lives:
                task.cancel()
            await asyncio.gather(*self._lives, return_exceptions=True)

    async def _keep_one(self) -> None:
        """Until the current one has died; those that take its place on the way count as it."""
        living = self._begin()
        while True:
            wanted = asyncio.create_task(self._replacement_wanted.wait())
            try:
                await asyncio.wait({living, wanted}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                wanted.cancel()
            if not living.done():
                living = await self._replaced(living)
            self._replacement_wanted.clear()
            self._replaced_once.set()
            if living.done():
                living.result()
                return

    async def _replaced(self, living: "asyncio.Task[None]") -> "asyncio.Task[None]":
        following = self._begin()
        up = asyncio.create_task(self._lives[following].up.wait())
        try:
            await asyncio.wait({following, up}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            up.cancel()
        if following.done():
            logger.warning("%s is not replaced: %s", self._name, following.exception())
            return living
        logger.info("%s is replaced", self._name)
        return following

    def _begin(self) -> "asyncio.Task[None]":
        life: _Life[M] = _Life()
        task = asyncio.create_task(self._live(life), name=f"a life of {self._name}")
        self._lives[task] = life
        task.add_done_callback(lambda done: self._lives.pop(done, None))
        return task

    async def _live(self, life: _Life[M]) -> None:
        async with self._start() as thing:
            self._failed_starts = 0
            self._started_before = True
            life.thing = thing
            await self._set(thing, None)
            life.up.set()
            unused = asyncio.create_task(life.unused.wait())
            try:
                await asyncio.wait({thing.died, unused}, return_when=asyncio.FIRST_COMPLETED)
                if thing.died.done():
                    logger.warning("%s died: %s", self._name, thing.died.result())
            finally:
                unused.cancel()
                if self.current is thing:
                    self.current = None

    async def _set(self, thing: M | None, reason: StokerError | None) -> None:
        async with self._changed:
            self.current = thing
            self._reason = reason
            self._changed.notify_all()

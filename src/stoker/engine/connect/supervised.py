"""Keeps a child process running: restarts it when it dies, and replaces it on request.

A replacement starts beside the old process. Once it is up it is the current one; the old process
runs on until its last user has released it. Pauses between restarts grow with each death in a row.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Generic, Protocol, TypeVar

from stoker.core.errors import StartupFailed, StokerError
from stoker.engine.contract import EngineState
from stoker.osproc.exit import ProcessExit

logger = logging.getLogger(__name__)

_STARTS_BEFORE_BROKEN = 3


class Restartable(Protocol):
    @property
    def died(self) -> "asyncio.Task[ProcessExit]": ...


R = TypeVar("R", bound=Restartable)


@dataclass(eq=False)
class _Life(Generic[R]):
    """One process, from its start to its end."""

    up: asyncio.Event = field(default_factory=asyncio.Event)
    resource: R | None = None
    unused: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when nobody uses the process any more: it may be stopped."""


class Supervised(Generic[R]):
    def __init__(
        self,
        name: str,
        start: Callable[[], AbstractAsyncContextManager[R]],
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
        self._lives: dict[asyncio.Task[None], _Life[R]] = {}
        self._failed_starts = 0
        self._deaths = 0
        self._started_before = False
        self._reason: StokerError | None = None
        self.current: R | None = None

    @property
    def state(self) -> EngineState:
        if self.current is not None:
            return EngineState.READY
        if self._failed_starts >= _STARTS_BEFORE_BROKEN:
            return EngineState.BROKEN
        return EngineState.RESTARTING if self._started_before else EngineState.STARTING

    async def get(self) -> R:
        """Wait for a running process; raise StartupFailed when it does not start."""
        async with self._changed:
            # A process that has just died is the current one for another moment.
            while self.current is None or self.current.died.done():
                if self.state is EngineState.BROKEN:
                    raise self._reason or StartupFailed(f"{self._name} does not start")
                await self._changed.wait()
            return self.current

    def replace(self) -> None:
        """Start another process, which becomes the current one when it is up."""
        self._replaced_once = asyncio.Event()
        self._replacement_wanted.set()

    async def wait_until_replaced(self) -> None:
        """Return when the replacement is up or has failed to start."""
        await self._replaced_once.wait()

    def release(self, resource: R) -> None:
        """Stop this process, which nobody uses any more, unless it is still the current one."""
        for life in self._lives.values():
            if life.resource is resource and resource is not self.current:
                life.unused.set()

    def is_released(self, resource: R) -> bool:
        return not any(
            life.resource is resource and not life.unused.is_set() for life in self._lives.values()
        )

    async def run(self) -> None:
        try:
            while True:
                started = asyncio.get_running_loop().time()
                try:
                    await self._run_until_death()
                except (StartupFailed, OSError) as error:
                    # OSError: the machine lacks processes, memory, open files or disk.
                    logger.warning("%s: %s", self._name, error)
                    self._failed_starts += 1
                    await self._set(None, _as_startup_failure(self._name, error))
                self._deaths += 1
                if asyncio.get_running_loop().time() - started > self._max_delay:
                    self._deaths = 1
                # The exponent is capped, since the number of deaths is not.
                factor = 2 ** min(self._deaths - 1, 16)
                await asyncio.sleep(min(self._delay * factor, self._max_delay))
        finally:
            for task in self._lives:
                task.cancel()
            await asyncio.gather(*self._lives, return_exceptions=True)

    async def _run_until_death(self) -> None:
        """Return when the current process has died; a replacement becomes the current one."""
        living = self._start_life()
        while True:
            wanted = asyncio.create_task(self._replacement_wanted.wait())
            try:
                await asyncio.wait({living, wanted}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                wanted.cancel()
            if not living.done():
                living = await self._replace(living)
            self._replacement_wanted.clear()
            self._replaced_once.set()
            if living.done():
                living.result()
                return

    async def _replace(self, living: "asyncio.Task[None]") -> "asyncio.Task[None]":
        following = self._start_life()
        up = asyncio.create_task(self._lives[following].up.wait())
        try:
            await asyncio.wait({following, up}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            up.cancel()
        if following.done():
            logger.warning("%s cannot be replaced: %s", self._name, following.exception())
            return living
        logger.info("%s is replaced", self._name)
        return following

    def _start_life(self) -> "asyncio.Task[None]":
        life: _Life[R] = _Life()
        task = asyncio.create_task(self._live(life), name=f"run {self._name}")
        self._lives[task] = life
        task.add_done_callback(lambda done: self._lives.pop(done, None))
        return task

    async def _live(self, life: _Life[R]) -> None:
        async with self._start() as resource:
            self._failed_starts = 0
            self._started_before = True
            life.resource = resource
            await self._set(resource, None)
            life.up.set()
            unused = asyncio.create_task(life.unused.wait())
            try:
                await asyncio.wait({resource.died, unused}, return_when=asyncio.FIRST_COMPLETED)
                if resource.died.done():
                    logger.warning("%s died: %s", self._name, resource.died.result().describe())
            finally:
                unused.cancel()
                if self.current is resource:
                    self.current = None

    async def _set(self, resource: R | None, reason: StokerError | None) -> None:
        async with self._changed:
            self.current = resource
            self._reason = reason
            self._changed.notify_all()


def _as_startup_failure(name: str, error: StartupFailed | OSError) -> StartupFailed:
    if isinstance(error, StartupFailed):
        return error
    return StartupFailed(f"{name} cannot be started: {error}")

"""Runner processes that stand ready, each with a Spark session that has run a query."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from stoker.aio.log_context import without
from stoker.aio.race import StoppedFirst, run_unless
from stoker.core.errors import StartupFailed, StokerError
from stoker.core.ids import Ids
from stoker.engine.connect.launcher import RunnerLauncher, ServerLost, WarmRunner
from stoker.engine.connect.server import SparkServer
from stoker.engine.connect.supervised import Supervised
from stoker.engine.connect.zygote_client import ForkedProcess, ZygoteClient
from stoker.engine.options import EngineOptions

_LOOK_AGAIN_SECONDS = 0.1
_BREATH_SECONDS = 0.1
"""After the end of a task, for those who are still to learn of it."""
_RUSH_SECONDS = 0.5
"""So long after somebody found no spare, more of them are expected."""
_SHORT_SECONDS = 1.0
_MANY = 3
"""So many that were taken within that time and are not done yet are a rush too."""

Spare = asyncio.Future[WarmRunner | StokerError]


@dataclass(frozen=True, kw_only=True)
class _Use:
    since: float
    over: asyncio.Future[None] = field(default_factory=asyncio.Future)


class RunnerPool:
    def __init__(
        self,
        options: EngineOptions,
        server: Supervised[SparkServer],
        zygote: Supervised[ZygoteClient],
        ids: Ids,
    ) -> None:
        self._options = options
        self._server = server
        self._launcher = RunnerLauncher(options, server, zygote, ids)
        self._spares: list[Spare] = []
        self._changed = asyncio.Event()
        self._in_use: dict[ForkedProcess, _Use] = {}
        """Those that were taken, until they end or are given back."""
        self._rush_until = 0.0

    async def take(self) -> WarmRunner:
        """A warm runner, ready at once if there is a spare; raises StokerError if none can be."""
        lost_servers = 0
        while True:
            # What failed in the background, perhaps long ago, says nothing about now.
            self._spares = [spare for spare in self._spares if not _has_failed(spare)]
            spare = self._next_spare()
            try:
                runner = await asyncio.shield(spare)
            except asyncio.CancelledError:
                self._spares.insert(0, spare)
                raise
            finally:
                self._changed.set()
            if isinstance(runner, StokerError):
                lost_servers += 1
                if not isinstance(runner, ServerLost) or lost_servers > 3:
                    raise runner
            elif runner.is_alive and not self._server.is_released(runner.server):
                self._note_use(runner.process)
                return runner
            else:
                await runner.process.kill()

    def _note_use(self, process: ForkedProcess) -> None:
        now = asyncio.get_running_loop().time()
        self._in_use[process] = _Use(since=now)
        process.exited.add_done_callback(lambda _: self._no_more_in_use(process))
        lately = [use for use in self._in_use.values() if now - use.since < _SHORT_SECONDS]
        if len(lately) >= _MANY:
            self._rush_until = now + _RUSH_SECONDS

    def _no_more_in_use(self, process: ForkedProcess) -> None:
        if process in self._in_use:
            self._in_use.pop(process).over.set_result(None)

    def take_back(self, runner: WarmRunner, *, with_session: bool) -> bool:
        """Whether it becomes a spare again: one that is as new, as its session is or has ended."""
        self._no_more_in_use(runner.process)
        if (
            runner.tasks >= self._options.runner_tasks
            or not runner.is_alive
            or runner.server is not self._server.current
            or not (with_session or self._wants_more)
        ):
            return False
        self._spares.append(self._kept(runner) if with_session else self._begin_opening(runner))
        self._changed.set()
        return True

    @property
    def _wants_more(self) -> bool:
        """While others are at work, more may be wanted than are kept later.

        One with its session is always wanted: a spare that was made meanwhile goes in its place.
        """
        return len(self._spares) < self._options.warm_runners + len(self._in_use)

    def _kept(self, runner: WarmRunner) -> Spare:
        ready: Spare = asyncio.get_running_loop().create_future()
        ready.set_result(runner.for_another_task())
        return ready

    def _begin_opening(self, runner: WarmRunner) -> Spare:
        opening = self._launcher.open_new_session(runner)
        return _begin(opening, "prepare-runner")

    def _next_spare(self) -> Spare:
        """A warm one, else one that is ready, else the oldest; made when there is none.

        Of warm ones that which had the most tasks: what Java has made fast for these, it has made
        fast for its session.
        """
        if not any(spare.done() for spare in self._spares):
            self._rush_until = asyncio.get_running_loop().time() + _RUSH_SECONDS
        if not self._spares:
            return self._begin_preparing()
        # Of equals the first, which is the oldest.
        best = min(
            self._spares, key=lambda spare: (not spare.done(), _is_cold(spare), -_uses(spare))
        )
        self._spares.remove(best)
        return best

    @property
    def _is_rushed(self) -> bool:
        """To warm up a runner costs as much as a short task: somebody needs that now."""
        return asyncio.get_running_loop().time() < self._rush_until

    async def renew(self) -> None:
        """Let go of spares at a server that is not the current one any more."""
        await _kill(self._without(lambda runner: runner.server is not self._server.current))
        self._changed.set()

    def _without(self, is_useless: Callable[[WarmRunner], bool]) -> list[WarmRunner]:
        """Out of the list first: nobody may take one that is about to end."""
        useless: list[WarmRunner] = []
        kept: list[Spare] = []
        for spare in self._spares:
            runner = spare.result() if spare.done() else None
            if isinstance(runner, WarmRunner) and is_useless(runner):
                useless.append(runner)
            else:
                kept.append(spare)
        self._spares = kept
        return useless

    async def _dismiss_surplus(self) -> None:
        """Those that came back in a rush, when it is over, or were made while others were away."""
        results = [spare.result() for spare in self._spares if spare.done()]
        ready = [result for result in results if isinstance(result, WarmRunner)]
        ready.sort(key=lambda runner: (not runner.is_warm, -runner.tasks))
        surplus = ready[self._options.warm_runners :]
        leaving = self._without(lambda runner: runner in surplus)
        await asyncio.gather(*(runner.leave() for runner in leaving))

    async def attach(self, server: SparkServer, session_id: str) -> WarmRunner | StokerError:
        """A runner in the session of another one, which died."""
        return await self._launcher.attach(server, session_id)

    async def wait_until_warm(self) -> str:
        """The version of Spark, as soon as a runner has spoken with it."""
        while True:
            spare = self._spares[0] if self._spares else None
            if spare is None:
                await self._server.get()
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
                continue
            runner = await asyncio.shield(spare)
            if isinstance(runner, WarmRunner):
                return runner.spark_version
            if isinstance(runner, StartupFailed):
                raise runner
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    async def run(self) -> None:
        """Keeps the number of spares; ends them when cancelled."""
        try:
            while True:
                # While the server is down, nothing can be prepared.
                server = await self._when_up()
                if not self._is_rushed:
                    await self._dismiss_surplus()
                self._top_up()
                await self._until_changed_or_lost(server)
                await self._until_calm()
        finally:
            for spare in self._spares:
                spare.cancel()
            await asyncio.gather(*self._spares, return_exceptions=True)

    async def _when_up(self) -> SparkServer:
        while True:
            try:
                return await self._server.get()
            except StokerError:
                await asyncio.sleep(self._options.max_restart_delay.total_seconds())

    def _top_up(self) -> None:
        self._spares = [spare for spare in self._spares if not _is_spoilt(spare)]
        if not self._is_rushed:
            self._spares = [self._warmed(spare) for spare in self._spares]
        while len(self._spares) < self._options.warm_runners:
            self._spares.append(self._begin_preparing())

    def _warmed(self, spare: Spare) -> Spare:
        if not _is_cold(spare):
            return spare
        runner = spare.result()
        assert isinstance(runner, WarmRunner)
        return _begin(self._launcher.warm_up(runner), "warm-up-runner")

    async def _until_changed_or_lost(self, server: SparkServer) -> None:
        """Or until what a rush has left may be seen to: cold spares, and too many."""
        self._changed.clear()
        all_warm = all(spare.done() and not _is_cold(spare) for spare in self._spares)
        settled = all_warm and len(self._spares) <= self._options.warm_runners
        limit = None if settled else _RUSH_SECONDS
        try:
            async with asyncio.timeout(limit):
                await run_unless(server.died, self._changed.wait())
        except TimeoutError:
            return
        except StoppedFirst:
            await _kill(self._without(lambda runner: runner.server is server))

    async def _until_calm(self) -> None:
        """To warm up a runner takes what a short task needs itself: it is left alone, not for long.

        Whoever finds no spare meanwhile has one made at once.
        """
        patience = self._options.replenish_delay.total_seconds()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while self._in_use:
                    overs = [use.over for use in self._in_use.values()]
                    await asyncio.wait(overs, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(min(_BREATH_SECONDS, patience))

    def _begin_preparing(self) -> Spare:
        making = self._launcher.launch(warm=not self._is_rushed)
        return _begin(making, "prepare-runner")


def _begin(preparing: Coroutine[Any, Any, WarmRunner | StokerError], name: str) -> Spare:
    """In a context of its own: the runner is not only for the attempt that asks for it now."""
    return asyncio.create_task(preparing, name=name, context=without("job", "attempt"))


async def _kill(runners: Iterable[WarmRunner]) -> None:
    """Their sessions end with their server."""
    for runner in runners:
        await runner.process.kill()


def _has_failed(spare: Spare) -> bool:
    return spare.done() and isinstance(spare.result(), StokerError)


def _is_spoilt(spare: Spare) -> bool:
    if not spare.done():
        return False
    runner = spare.result()
    return isinstance(runner, StokerError) or not runner.is_alive


def _uses(spare: Spare) -> int:
    runner = spare.result() if spare.done() else None
    return runner.tasks if isinstance(runner, WarmRunner) else 0


def _is_cold(spare: Spare) -> bool:
    runner = spare.result() if spare.done() else None
    return isinstance(runner, WarmRunner) and not runner.is_warm

"""A pool of warm runner processes, each with a Spark session that has run a query.

A small job is as fast as its runner is ready: forking a process, opening a session and its first
query can take longer than the job itself. So spare runners are prepared ahead of demand. Preparing
one takes as much processor time as a short task, so it waits until the tasks under way have ended,
and in a rush of jobs runners are prepared without a first query.

Invariant: a runner leaves the list of spares before anything ends it, so no task receives a runner
that is being killed. And a runner that has run a task, with its session, is only for jobs of the
same owner, however surely the task has left nothing behind.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
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

_POLL_SECONDS = 0.1
_PAUSE_AFTER_TASK_SECONDS = 0.1
"""Leaves the processor to whoever reports the end of the task."""
_RUSH_SECONDS = 0.5
"""A rush lasts this long after a task found no spare that was ready."""
_RUSH_WINDOW_SECONDS = 1.0
_RUSH_TASKS = 3
"""This many tasks that started within the window and still run are a rush too."""

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
        """Processes of runners that run tasks, until they end or come back to the pool."""
        self._rush_until = 0.0
        self._being_prepared: dict[Spare, str] = {}
        """Owners of the runners, among the spares, that are being prepared for another task."""
        self._owners: set[str] = set()
        """Owners of the tasks so far."""

    async def take(self, owner: str) -> WarmRunner:
        """Return a warm runner for a job of the owner, at once if one is spare.

        Raises StokerError if none can start.
        """
        self._owners.add(owner)
        lost_servers = 0
        while True:
            # A spare may have failed long ago, for a reason that no longer holds.
            self._spares = [spare for spare in self._spares if not _has_failed(spare)]
            spare = self._next_spare(owner)
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
                return replace(runner, owner=owner)
            else:
                await runner.process.kill()

    @property
    def ready(self) -> int:
        """Number of spare runners that a task could take at once."""
        return sum(spare.done() and not _has_failed(spare) for spare in self._spares)

    def _note_use(self, process: ForkedProcess) -> None:
        now = asyncio.get_running_loop().time()
        self._in_use[process] = _Use(since=now)
        process.exited.add_done_callback(lambda _: self._end_use(process))
        lately = [use for use in self._in_use.values() if now - use.since < _RUSH_WINDOW_SECONDS]
        if len(lately) >= _RUSH_TASKS:
            self._rush_until = now + _RUSH_SECONDS

    def _end_use(self, process: ForkedProcess) -> None:
        if process in self._in_use:
            self._in_use.pop(process).over.set_result(None)

    def take_back(self, runner: WarmRunner, *, with_session: bool) -> bool:
        """Make a reusable runner a spare again; return whether the pool accepts it.

        `with_session`: its session is reusable too; otherwise the session has ended.
        """
        self._end_use(runner.process)
        if (
            runner.tasks >= self._options.runner_tasks
            or not runner.is_alive
            or runner.server is not self._server.current
            or not (with_session or self._has_room)
        ):
            return False
        self._spares.append(
            self._ready_in_its_session(runner) if with_session else self._start_opening(runner)
        )
        self._changed.set()
        return True

    @property
    def _has_room(self) -> bool:
        """Whether to accept a runner without a session. While others are in use, more are kept.

        A runner with its session is always accepted: a spare made meanwhile is dismissed instead.
        """
        return len(self._spares) < self._options.warm_runners + len(self._in_use)

    def _ready_in_its_session(self, runner: WarmRunner) -> Spare:
        ready: Spare = asyncio.get_running_loop().create_future()
        ready.set_result(runner.for_another_task())
        return ready

    def _start_opening(self, runner: WarmRunner) -> Spare:
        opening = _start_spare(self._launcher.open_new_session(runner), "prepare-runner")
        return self._note_owner(opening, runner)

    def _note_owner(self, spare: Spare, runner: WarmRunner) -> Spare:
        """Remember whose runner the spare will be, until it is ready and says so itself."""
        if runner.owner is not None:
            self._being_prepared[spare] = runner.owner
            spare.add_done_callback(lambda done: self._being_prepared.pop(done, None))
        return spare

    def _owner_of(self, spare: Spare) -> str | None:
        """None for a spare that has run no task."""
        runner = spare.result() if spare.done() else None
        return runner.owner if isinstance(runner, WarmRunner) else self._being_prepared.get(spare)

    def _next_spare(self, owner: str) -> Spare:
        """Remove and return the best spare: a warm one, else a ready one, else the oldest.

        Starts a new one if there is none for this owner. Among warm spares, the one with the most
        tasks is best: Java has compiled code for its session.
        """
        spares = [spare for spare in self._spares if self._owner_of(spare) in (None, owner)]
        if not any(spare.done() for spare in spares):
            self._rush_until = asyncio.get_running_loop().time() + _RUSH_SECONDS
        if not spares:
            return self._start_preparing()
        # Among equals, `min` returns the first, which is the oldest.
        best = min(spares, key=lambda spare: (not spare.done(), _is_cold(spare), -_uses(spare)))
        self._spares.remove(best)
        return best

    @property
    def _is_rushed(self) -> bool:
        """Warming up a runner costs as much as a short task, which has priority in a rush."""
        return asyncio.get_running_loop().time() < self._rush_until

    async def dismiss_stale_spares(self) -> None:
        """Kill spares at a server that is no longer the current one."""
        await _kill(self._remove_spares(lambda runner: runner.server is not self._server.current))
        self._changed.set()

    def _remove_spares(self, is_useless: Callable[[WarmRunner], bool]) -> list[WarmRunner]:
        """Remove useless spares first, so that no task receives one that is about to end."""
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
        """Dismiss spares beyond the configured number, which a rush has left behind."""
        surplus = self._surplus()
        leaving = self._remove_spares(lambda runner: runner in surplus)
        await asyncio.gather(*(runner.leave() for runner in leaving))

    def _surplus(self) -> list[WarmRunner]:
        results = [spare.result() for spare in self._spares if spare.done()]
        ready = [result for result in results if isinstance(result, WarmRunner)]
        ready.sort(key=lambda runner: (not runner.is_warm, -runner.tasks))
        kept = self._options.warm_runners
        return [runner for kind in self._kinds(ready) for runner in kind[kept:]]

    def _kinds(self, runners: list[WarmRunner]) -> tuple[list[WarmRunner], ...]:
        """Runners that are kept and replenished together.

        Where jobs of several owners run, a spare that has run a task is of no use to most of them,
        so spares that nobody has used are kept besides.
        """
        if len(self._owners) < 2:
            return (runners,)
        unused = [runner for runner in runners if runner.owner is None]
        return unused, [runner for runner in runners if runner.owner is not None]

    async def attach(self, server: SparkServer, session_id: str) -> WarmRunner | StokerError:
        """Start a runner in the session of another runner, which died."""
        return await self._launcher.attach(server, session_id)

    async def wait_until_warm(self) -> str:
        """Return the version of Spark as soon as a runner has connected to it."""
        while True:
            spare = self._spares[0] if self._spares else None
            if spare is None:
                await self._server.get()
                await asyncio.sleep(_POLL_SECONDS)
                continue
            runner = await asyncio.shield(spare)
            if isinstance(runner, WarmRunner):
                return runner.spark_version
            if isinstance(runner, StartupFailed):
                raise runner
            await asyncio.sleep(_POLL_SECONDS)

    async def run(self) -> None:
        """Keep the number of spares; end them when cancelled."""
        try:
            while True:
                # While the server is down, nothing can be prepared.
                server = await self._wait_for_server()
                await _kill(self._remove_spares(lambda runner: not runner.is_alive))
                if not self._is_rushed:
                    await self._dismiss_surplus()
                self._top_up()
                await self._wait_until_changed_or_lost(server)
                await self._wait_until_calm()
        finally:
            for spare in self._spares:
                spare.cancel()
            await asyncio.gather(*self._spares, return_exceptions=True)

    async def _wait_for_server(self) -> SparkServer:
        while True:
            try:
                return await self._server.get()
            except StokerError:
                await asyncio.sleep(self._options.max_restart_delay.total_seconds())

    def _top_up(self) -> None:
        self._spares = [spare for spare in self._spares if not _has_failed(spare)]
        if not self._is_rushed:
            self._spares = [self._warmed(spare) for spare in self._spares]
        several = len(self._owners) > 1
        counted = [spare for spare in self._spares if not several or self._owner_of(spare) is None]
        for _ in range(len(counted), self._options.warm_runners):
            self._spares.append(self._start_preparing())

    def _warmed(self, spare: Spare) -> Spare:
        if not _is_cold(spare):
            return spare
        runner = spare.result()
        assert isinstance(runner, WarmRunner)
        warming = _start_spare(self._launcher.warm_up(runner), "warm-up-runner")
        return self._note_owner(warming, runner)

    async def _wait_until_changed_or_lost(self, server: SparkServer) -> None:
        """Return after a rush as well if it has left cold or surplus spares."""
        self._changed.clear()
        all_warm = all(spare.done() and not _is_cold(spare) for spare in self._spares)
        settled = all_warm and not self._surplus()
        limit = None if settled else _RUSH_SECONDS
        try:
            async with asyncio.timeout(limit):
                await run_unless(server.died, self._changed.wait())
        except TimeoutError:
            return
        except StoppedFirst:
            await _kill(self._remove_spares(lambda runner: runner.server is server))

    async def _wait_until_calm(self) -> None:
        """Wait until no task runs, for at most the replenish delay.

        Preparing a runner would slow down a short task. A task that finds no spare meanwhile starts
        one at once.
        """
        patience = self._options.replenish_delay.total_seconds()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while self._in_use:
                    overs = [use.over for use in self._in_use.values()]
                    await asyncio.wait(overs, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(min(_PAUSE_AFTER_TASK_SECONDS, patience))

    def _start_preparing(self) -> Spare:
        making = self._launcher.launch(warm=not self._is_rushed)
        return _start_spare(making, "prepare-runner")


def _start_spare(preparing: Coroutine[Any, Any, WarmRunner | StokerError], name: str) -> Spare:
    """Start without the job's log fields: another attempt may use the runner."""
    return asyncio.create_task(preparing, name=name, context=without("job", "attempt"))


async def _kill(runners: Iterable[WarmRunner]) -> None:
    """Kill runners whose server is dead or about to end: their sessions end with it."""
    for runner in runners:
        await runner.process.kill()


def _has_failed(spare: Spare) -> bool:
    return spare.done() and isinstance(spare.result(), StokerError)


def _uses(spare: Spare) -> int:
    runner = spare.result() if spare.done() else None
    return runner.tasks if isinstance(runner, WarmRunner) else 0


def _is_cold(spare: Spare) -> bool:
    runner = spare.result() if spare.done() else None
    return isinstance(runner, WarmRunner) and not runner.is_warm

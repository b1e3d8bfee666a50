"""A task at its runner, from launch to the proof that nothing of it is left."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from stoker.aio.clock import WallClock
from stoker.core.results import AttemptOutcome, Failure, Progress
from stoker.core.states import ExecutionState
from stoker.engine.contract import Listener, Progressed, StateChanged, Task
from stoker.engine.pool import WarmRunner
from stoker.engine.runner_protocol import (
    Cancel,
    Ended,
    ProgressReport,
    RunTask,
    SessionEnded,
    StateReport,
)
from stoker.engine.sessions import SessionEnder
from stoker.engine.waiting import Stopped, unless

_RELEASE_SECONDS = 8.0
_DEATH_NOTICE_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class _End:
    state: ExecutionState
    failure: Failure | None = None
    progress: Progress = Progress()


class ConnectTask:
    def __init__(
        self,
        task: Task,
        runner: WarmRunner,
        listener: Listener,
        *,
        sessions: SessionEnder,
        grace: timedelta,
        wall_clock: WallClock,
    ) -> None:
        self._task = task
        self._runner = runner
        self._listener = listener
        self._sessions = sessions
        self._grace = grace.total_seconds()
        self._wall_clock = wall_clock
        self._cancel_asked = False
        self._work_over = asyncio.Event()
        self._session_ended = False
        self._last_progress = Progress()
        self.following = asyncio.create_task(self._follow(), name=f"attempt-{task.attempt}")

    async def outcome(self) -> AttemptOutcome:
        return await asyncio.shield(self.following)

    async def cancel(self) -> None:
        if not self._cancel_asked and not self._work_over.is_set():
            self._cancel_asked = True
            await self._runner.process.send(Cancel())
            try:
                async with asyncio.timeout(self._grace):
                    await self._work_over.wait()
            except TimeoutError:
                await self._runner.process.kill()
        await self.outcome()

    async def kill(self) -> None:
        """Cancel without any grace."""
        self._cancel_asked = self._cancel_asked or not self._work_over.is_set()
        await self._runner.process.kill()
        await self.outcome()

    async def _follow(self) -> AttemptOutcome:
        end = await self._work()
        self._work_over.set()
        await self._clean_up()
        return AttemptOutcome(
            job_id=self._task.graph.job_id,
            region=self._task.region_id,
            attempt=self._task.attempt,
            state=end.state,
            at=self._wall_clock(),
            failure=end.failure,
            progress=end.progress,
        )

    async def _work(self) -> _End:
        server_died = self._runner.server.died
        try:
            ended = await unless(server_died, self._run())
        except Stopped:
            return self._server_died()
        if ended is None:
            return await self._runner_died()
        if ended.connection_lost:
            # The runner may notice before the kernel has told us that its server is gone.
            await asyncio.wait([server_died], timeout=_DEATH_NOTICE_SECONDS)
            if server_died.done():
                return self._server_died()
        return _End(state=ended.state, failure=ended.failure, progress=ended.progress)

    async def _run(self) -> Ended | None:
        task = self._task
        await self._runner.process.send(
            RunTask(
                graph=task.graph,
                region=task.region,
                attempt=task.attempt,
                directory=str(task.directory.absolute()),
                materialized_root=task.materialized_root,
                checkpoint_root=task.checkpoint_root,
                artifacts={name: str(path.absolute()) for name, path in task.artifacts.items()},
            )
        )
        while (message := await self._runner.process.receive()) is not None:
            match message:
                case StateReport(state=state):
                    self._listener(StateChanged(state))
                case ProgressReport(progress=progress):
                    self._last_progress = progress
                    self._listener(Progressed(progress))
                case Ended():
                    return message
        return None

    def _server_died(self) -> _End:
        reason = self._runner.server.died.result()
        return self._failed("SparkServerDied", f"the Spark server of the task died: {reason}")

    async def _runner_died(self) -> _End:
        ending = await self._runner.process.kill()
        hint = ""
        if "SIGKILL" in ending and not self._cancel_asked:
            hint = "; the machine may have run out of memory"
        return self._failed(
            "RunnerDied", f"the process that ran the task's code ended by itself: {ending}{hint}"
        )

    def _failed(self, error: str, message: str) -> _End:
        if self._cancel_asked:
            return _End(state=ExecutionState.CANCELED, progress=self._last_progress)
        failure = Failure(error=error, message=message)
        return _End(state=ExecutionState.FAILED, failure=failure, progress=self._last_progress)

    async def _clean_up(self) -> None:
        """Returns when the runner's processes and the session's work are gone."""
        runner = self._runner
        if runner.process.is_alive and not runner.server.died.done():
            try:
                async with asyncio.timeout(_RELEASE_SECONDS):
                    await unless(runner.server.died, self._wait_for_release())
            except (TimeoutError, Stopped):
                pass
        await runner.process.kill()
        if not self._session_ended:
            await self._sessions.end(runner.server, runner.session_id)

    async def _wait_for_release(self) -> None:
        while (message := await self._runner.process.receive()) is not None:
            if isinstance(message, SessionEnded):
                self._session_ended = True
                return

"""One task of the connect engine, from its launch to the proof that nothing of it is left.

A task has three parts: a runner process with the user's code, a session at the shared Spark server,
and the work of that session in Spark, which continues without the runner. Each part can die or
freeze by itself. A task that did not finish is reported only when its work is certainly gone, since
the next attempt may start at once and write to the same sinks.

`_run` does the work and then cleans up. The work is wrapped in one layer for each thing that can
end it, from the outside in: the time limit, the takeover of a stream whose runner died, the limits
on memory and processes, the death of the Spark server, and the messages of the runner itself.
"""

import asyncio
import logging
import math
import signal
from dataclasses import dataclass

import msgspec

from stoker.aio.clock import WallClock
from stoker.aio.race import StoppedFirst, run_unless
from stoker.core.failpoints import failpoint
from stoker.core.graph import Program
from stoker.core.results import COLLATERAL, AttemptOutcome, Failure, Progress
from stoker.core.states import ExecutionState
from stoker.engine.connect.launcher import WarmRunner
from stoker.engine.connect.pool import RunnerPool
from stoker.engine.connect.server import end_if_spark_stopped
from stoker.engine.connect.session_cleanup import SessionCleanup, kill_for_uninterruptible_tasks
from stoker.engine.contract import Finished, Listener, Progressed, StateChanged, Task
from stoker.engine.lease import Lease, LeaseStep, lease_expired
from stoker.engine.limits import limits_of, too_slow, wait_until_limit_exceeded
from stoker.engine.options import EngineOptions
from stoker.engine.program_exit import failure_of_death
from stoker.engine.protocol import (
    Cancel,
    Ended,
    LeaseRenewed,
    Malformed,
    ProgressReport,
    RunTask,
    SessionEnded,
    SessionKept,
    SessionNotEnded,
    StateReport,
)
from stoker.engine.reports import failure_of_malformed
from stoker.engine.spark_page import without_token
from stoker.osproc.exit import ProcessExit
from stoker.osproc.orphans import WORKER_MARK, kill_marked

logger = logging.getLogger(__name__)

_RELEASE_SECONDS = 8.0
_RETRY_SECONDS = 0.5
_MOST_TAKEOVERS = 3
"""How often in a row another runner takes over a stream whose runner has died."""
_TAKEOVERS_FORGOTTEN_SECONDS = 60.0
"""A runner that has lived this long resets the count of takeovers."""


@dataclass(frozen=True, kw_only=True)
class _WorkEnd:
    state: ExecutionState
    failure: Failure | None = None
    progress: Progress = Progress()


@dataclass(frozen=True, kw_only=True)
class TaskResources:
    """What all tasks of one engine share."""

    options: EngineOptions
    machine_memory: int
    pool: RunnerPool
    sessions: SessionCleanup
    wall_clock: WallClock


class ConnectTask:
    def __init__(
        self, task: Task, runner: WarmRunner, listener: Listener, resources: TaskResources
    ) -> None:
        self._task = task
        self._runner = runner
        self._listener = listener
        self._resources = resources
        self._limits = limits_of(
            resources.options, resources.machine_memory, task.graph.profile.memory_bytes
        )
        self._cancel_requested = False
        self._cancel_requested_at: float | None = None
        self._kill_requested = False
        self._work_over = asyncio.Event()
        self._session_end: SessionEnded | SessionKept | None = None
        """The report of the runner or a janitor that nothing of the task is left in the session."""
        self._last_progress = Progress()
        self._takeovers = 0
        self._lease = Lease(until=task.lease_until, margin=task.lease_margin)
        self._is_work_gone = False
        self._has_task = False
        """Whether the current runner has received the task, and with it the lease."""
        self._leaves_process_clean = False
        """Whether the runner may take another task. It says so before it loads the job's code."""
        self._is_runner_returned = False
        """Whether the runner is back in the pool; it may have another task by now."""
        self.server = runner.server
        self.completion = asyncio.create_task(self._run(), name=f"attempt-{task.attempt}")

    @property
    def session_id(self) -> str:
        """Id of the Spark session, which Spark's monitoring shows with its jobs."""
        return self._runner.session_id

    async def outcome(self) -> AttemptOutcome:
        return await asyncio.shield(self.completion)

    def renew_lease(self, until: float) -> None:
        self._lease = self._lease.renewed(until)
        self._watch()
        if self._has_task and self._runner.process.is_alive:
            self._runner.process.post(LeaseRenewed(until=self._lease.until))

    async def cancel(self) -> None:
        if self._work_over.is_set() and self._has_task and self._runner.process.is_alive:
            # No work is left to cancel; this tells the runner that its task executor is alive.
            self._runner.process.post(Cancel())
        if not self._cancel_requested and not self._work_over.is_set():
            self._cancel_requested = True
            self._cancel_requested_at = asyncio.get_running_loop().time()
            await self._runner.process.send(Cancel())
            try:
                async with asyncio.timeout(self._grace()):
                    await self._work_over.wait()
            except TimeoutError:
                await self._runner.process.kill()
        await self.outcome()

    async def kill(self) -> None:
        """Cancel without a grace time."""
        self._kill_requested = True
        self._cancel_requested = self._cancel_requested or not self._work_over.is_set()
        if not self._is_runner_returned:
            await self._runner.process.kill()
        await self.outcome()

    def _grace(self) -> float:
        """Seconds until the runner is killed: few enough that its work ends within the lease."""
        left = self._lease.seconds_to(LeaseStep.FORCE, asyncio.get_running_loop().time())
        return min(self._resources.options.cancellation_grace.total_seconds(), left)

    def _watch(self) -> None:
        """Tell the watchdog the lease, for as long as there is work that could do harm."""
        if not self._is_work_gone:
            self.server.watchdog.watch(self.session_id, self._lease.until, self._runner.process.pid)

    def _unwatch(self) -> None:
        self._is_work_gone = True
        self.server.watchdog.unwatch(self.session_id)

    async def _run(self) -> AttemptOutcome:
        self._watch()
        try:
            end = await self._run_within_time_limit()
        except OSError as error:
            # For example: no file can be opened for the task's log.
            await self._runner.process.kill()
            message = f"the task executor could not run the task: {error}"
            end = self._failed(Failure(error=type(error).__name__, message=message))
        self._work_over.set()
        if end.state is not ExecutionState.FINISHED:
            await self._clean_up()
            self._unwatch()
            return self._outcome_of(end)
        self._unwatch()
        outcome = self._outcome_of(end)
        # Listeners may read the task's output as soon as they know that it has finished.
        await self._runner.process.flush_output()
        self._listener(Finished(outcome))
        await self._clean_up()
        return outcome

    def _outcome_of(self, end: _WorkEnd) -> AttemptOutcome:
        return AttemptOutcome(
            job_id=self._task.graph.job_id,
            region=self._task.region_id,
            attempt=self._task.attempt,
            state=end.state,
            at=self._resources.wall_clock(),
            failure=end.failure,
            progress=self._with_link(end.progress),
        )

    async def _run_within_time_limit(self) -> _WorkEnd:
        allowed = self._resources.options.runner_run_time
        if allowed is None or self._task.region.streaming:
            return await self._run_with_takeovers()
        try:
            async with asyncio.timeout(allowed.total_seconds()):
                return await self._run_with_takeovers()
        except TimeoutError:
            await self._runner.process.kill()
            return self._failed(too_slow(allowed.total_seconds()))

    async def _run_with_takeovers(self) -> _WorkEnd:
        """Do the work; when the runner of a streaming query dies, let another runner watch it."""
        resumed: Progress | None = None
        while True:
            began = asyncio.get_running_loop().time()
            end = await self._run_within_limits(resumed)
            if end is not None:
                return end
            ended = await self._runner.process.kill()
            if asyncio.get_running_loop().time() - began > _TAKEOVERS_FORGOTTEN_SECONDS:
                self._takeovers = 0
            if not await self._attach_another_runner():
                return self._runner_died(ended)
            resumed = self._last_progress

    async def _run_within_limits(self, resumed: Progress | None) -> _WorkEnd | None:
        """None when the runner died."""
        pid = self._runner.process.pid
        if pid is None:
            return await self._run_while_server_lives(resumed)
        exceeded = asyncio.create_task(wait_until_limit_exceeded(pid, self._limits))
        try:
            return await run_unless(exceeded, self._run_while_server_lives(resumed))
        except StoppedFirst:
            await self._runner.process.kill()
            return self._failed(exceeded.result())
        finally:
            exceeded.cancel()

    async def _run_while_server_lives(self, resumed: Progress | None) -> _WorkEnd | None:
        """None when the runner died."""
        server_died = self.server.died
        try:
            ended = await run_unless(server_died, self._exchange_messages(resumed))
        except StoppedFirst:
            return self._server_died()
        if ended is None:
            return None
        if ended.server_lost and await end_if_spark_stopped(self.server):
            return self._server_died()
        return _WorkEnd(state=ended.state, failure=ended.failure, progress=ended.progress)

    async def _exchange_messages(self, resumed: Progress | None) -> Ended | None:
        """Give the runner its task and follow its reports; None when the runner died."""
        task = self._task
        self._runner.process.log_to(task.directory)
        self._has_task = True
        await self._runner.process.send(
            RunTask(
                graph=task.graph,
                region=task.region,
                attempt=task.attempt,
                directory=str(task.directory.absolute()),
                materialized_root=task.materialized_root,
                checkpoint_root=task.checkpoint_root,
                rows_root=task.rows_root,
                artifacts={name: str(path.absolute()) for name, path in task.artifacts.items()},
                limits=self._limits,
                resumed=resumed,
                lease=self._lease,
                uninterruptible_after=self._uninterruptible_after(),
            )
        )
        if self._cancel_requested:
            # The request came while there was no runner.
            await self._runner.process.send(Cancel())
        is_first = resumed is None
        while (message := await self._runner.process.receive()) is not None:
            match message:
                case StateReport(state=state):
                    self._leaves_process_clean |= is_first and message.leaves_process_clean
                    self._listener(StateChanged(state))
                case ProgressReport(progress=progress):
                    self._last_progress = progress
                    self._listener(Progressed(self._with_link(progress)))
                case Ended():
                    return message
                case Malformed():
                    await self._runner.process.kill()
                    failure = failure_of_malformed(message)
                    return Ended(state=ExecutionState.FAILED, failure=failure)
            is_first = False
        return None

    async def _attach_another_runner(self) -> bool:
        """Give the session of a dead runner to another one; return whether that was possible."""
        known = self._last_progress
        if self._cancel_requested or known.run_id is None or self._takeovers >= _MOST_TAKEOVERS:
            return False
        if self._lease_has_run_out():
            return False
        self._takeovers += 1
        failpoint("takeover.before-attaching")
        successor = await self._resources.pool.attach(self.server, self._runner.session_id)
        failpoint("takeover.after-attaching")
        if not isinstance(successor, WarmRunner):
            return False
        if self._kill_requested:
            await successor.process.kill()
            return False
        self._runner, self._has_task = successor, False
        self._watch()
        return True

    def _lease_has_run_out(self) -> bool:
        return self._lease.due(asyncio.get_running_loop().time()) is not LeaseStep.CONTINUE

    def _with_link(self, progress: Progress) -> Progress:
        return msgspec.structs.replace(progress, spark_ui=without_token(self.server.ui) or None)

    def _server_died(self) -> _WorkEnd:
        reason = self.server.died.result().describe()
        message = f"the Spark server of the task died: {reason}"
        labels = {"cause": COLLATERAL} if self.server.kill_reason.is_collateral else {}
        return self._failed(Failure(error="SparkServerDied", message=message, labels=labels))

    def _runner_died(self, ended: ProcessExit) -> _WorkEnd:
        hint = ""
        by_signal = (ended.parent or ended).signal
        if by_signal in (signal.SIGKILL, signal.SIGABRT) and not self._cancel_requested:
            hint = "; perhaps the machine ran out of memory, or the task exceeded runner.memory"
        is_program = isinstance(self._task.graph.vertex(self._task.region_id), Program)
        if is_program and ended.parent is None:
            return self._failed(failure_of_death(ended, hint))
        message = f"the process that ran the task's code ended by itself: {ended.describe()}{hint}"
        return self._failed(Failure(error="RunnerDied", message=message))

    def _failed(self, failure: Failure) -> _WorkEnd:
        if self._cancel_requested:
            return _WorkEnd(state=ExecutionState.CANCELED, progress=self._last_progress)
        if self._lease_has_run_out():
            # Another attempt may be running, so this one must not count as a failure of the job.
            failure, state = lease_expired(), ExecutionState.CANCELED
            return _WorkEnd(state=state, failure=failure, progress=self._last_progress)
        return _WorkEnd(state=ExecutionState.FAILED, failure=failure, progress=self._last_progress)

    async def _clean_up(self) -> None:
        """Return when the runner's processes and the session's work are gone.

        Until then no outcome may be reported, so a clean-up that fails is repeated. This machine
        may lack open files, for example. Meanwhile the lease is renewed, and the watchdog leaves
        the server alone.
        """
        while True:
            try:
                return await self._try_to_clean_up()
            except OSError as error:
                logger.warning("the task cannot be cleaned up yet: %s", error)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _try_to_clean_up(self) -> None:
        runner, kill_at = self._runner, self._end_began_at() + self._uninterruptible_after()
        not_ended: SessionNotEnded | None = None
        if self._session_end is None and runner.process.is_alive and not self.server.died.done():
            try:
                async with asyncio.timeout(_RELEASE_SECONDS):
                    not_ended = await run_unless(self.server.died, self._wait_for_release())
            except (TimeoutError, StoppedFirst):
                pass
        if await self._return_runner():
            return
        if isinstance(self._session_end, SessionKept):
            # It is about to end the session; only its answer proves that it has.
            self._session_end = None
            self._session_end = await runner.leave()
        await runner.process.kill()
        if not_ended is not None and not_ended.uninterruptible:
            await kill_for_uninterruptible_tasks(self.server, not_ended)
        if self._session_end is None:
            self._session_end = await self._resources.sessions.end(
                self.server, runner.session_id, kill_at=kill_at
            )
        if self._session_end is not None and self._session_end.workers:
            # Spark keeps Python workers for as long as it runs: hundreds in a day.
            await asyncio.to_thread(kill_marked, WORKER_MARK, self._session_end.workers)

    async def _return_runner(self) -> bool:
        """Return the runner to the pool if nothing of the task is left in it and it is wanted.

        Code of the job may have sent any report in the name of the runner. So only the report that
        came before that code was loaded decides whether the process may be used again.
        """
        if not self._leaves_process_clean:
            return False
        match self._session_end:
            case SessionKept():
                with_session = True
            case SessionEnded(is_reusable=True):
                with_session = False
            case _:
                return False
        await self._runner.process.flush_output()
        try:
            self._runner.process.log_to_default()
        except OSError as error:
            logger.warning("a runner is not reused, as its output has no log: %s", error)
            return False
        self._has_task = False
        self._is_runner_returned = self._resources.pool.take_back(
            self._runner, with_session=with_session
        )
        return self._is_runner_returned

    async def _wait_for_release(self) -> SessionNotEnded | None:
        while (message := await self._runner.process.receive()) is not None:
            if isinstance(message, SessionEnded | SessionKept):
                self._session_end = message
                return None
            if isinstance(message, SessionNotEnded):
                return message
        return None

    def _end_began_at(self) -> float:
        return self._cancel_requested_at or asyncio.get_running_loop().time()

    def _uninterruptible_after(self) -> float:
        return self._resources.options.cancellation_timeout.total_seconds() or math.inf

"""A task at its runner, from launch to the proof that nothing of it is left."""

import asyncio
import math
from dataclasses import dataclass

import msgspec

from stoker.aio.clock import WallClock
from stoker.core.failpoints import failpoint
from stoker.core.graph import Program
from stoker.core.results import NEIGHBOUR, AttemptOutcome, Failure, Progress
from stoker.core.states import ExecutionState
from stoker.engine.connect.launcher import WarmRunner
from stoker.engine.connect.lost_server import has_ended
from stoker.engine.connect.pool import RunnerPool
from stoker.engine.connect.runner_watch import until_limit_broken
from stoker.engine.connect.server import exit_code_in
from stoker.engine.connect.session_cleanup import SessionEnder, put_down_for
from stoker.engine.connect.waiting import Stopped, unless
from stoker.engine.contract import Finished, Listener, Progressed, StateChanged, Task
from stoker.engine.lease import Lease, LeaseStep, lease_ran_out
from stoker.engine.limits import limits_of, too_slow
from stoker.engine.options import EngineOptions
from stoker.engine.protocol import (
    Cancel,
    Ended,
    LeaseRenewed,
    ProgressReport,
    RunTask,
    SessionEnded,
    SessionKept,
    SessionNotEnded,
    StateReport,
)
from stoker.engine.region.program import failure_of_death
from stoker.osproc.orphans import WORKER_MARK, kill_marked

_RELEASE_SECONDS = 8.0
_TAKEOVERS = 3
"""Of a stream whose runners die again and again; one that lives on for a while is forgiven."""
_FORGIVEN_AFTER_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class _End:
    state: ExecutionState
    failure: Failure | None = None
    progress: Progress = Progress()


@dataclass(frozen=True, kw_only=True)
class TaskMeans:
    """What tasks of one engine have in common."""

    options: EngineOptions
    machine_memory: int
    pool: RunnerPool
    sessions: SessionEnder
    wall_clock: WallClock


class ConnectTask:
    def __init__(
        self, task: Task, runner: WarmRunner, listener: Listener, means: TaskMeans
    ) -> None:
        self._task = task
        self._runner = runner
        self._listener = listener
        self._means = means
        self._limits = limits_of(
            means.options, means.machine_memory, task.graph.profile.memory_bytes
        )
        self._cancel_asked = False
        self._cancel_at: float | None = None
        self._work_over = asyncio.Event()
        self._session: SessionEnded | SessionKept | None = None
        """What became of it, once nothing of the task is left in it."""
        self._last_progress = Progress()
        self._takeovers = 0
        self._lease = Lease(until=task.lease_until, margin=task.lease_margin)
        self._work_is_gone = False
        self._has_task = False
        """The runner of now was given the task, and with it the lease."""
        self._gave_back = False
        """The runner, which may have another task by now and is none of ours."""
        self.server = runner.server
        self.following = asyncio.create_task(self._follow(), name=f"attempt-{task.attempt}")

    @property
    def session_id(self) -> str:
        """Of its Spark session, by which Spark's monitoring knows it."""
        return self._runner.session_id

    async def outcome(self) -> AttemptOutcome:
        return await asyncio.shield(self.following)

    def renew_lease(self, until: float) -> None:
        self._lease = self._lease.renewed(until)
        self._guard()
        if self._has_task and self._runner.process.is_alive:
            self._runner.process.post(LeaseRenewed(until=self._lease.until))

    async def cancel(self) -> None:
        if self._work_over.is_set() and self._has_task and self._runner.process.is_alive:
            # Nothing is left to cancel, but the runner learns that it is attended to.
            self._runner.process.post(Cancel())
        if not self._cancel_asked and not self._work_over.is_set():
            self._cancel_asked, self._cancel_at = True, asyncio.get_running_loop().time()
            await self._runner.process.send(Cancel())
            try:
                async with asyncio.timeout(self._grace()):
                    await self._work_over.wait()
            except TimeoutError:
                await self._runner.process.kill()
        await self.outcome()

    async def kill(self) -> None:
        """Cancel without any grace."""
        self._cancel_asked = self._cancel_asked or not self._work_over.is_set()
        if not self._gave_back:
            await self._runner.process.kill()
        await self.outcome()

    def _grace(self) -> float:
        """Until the runner is killed: with time left to end its work at Spark within the lease."""
        left = self._lease.seconds_to(LeaseStep.FORCE, asyncio.get_running_loop().time())
        return min(self._means.options.cancellation_grace.total_seconds(), left)

    def _guard(self) -> None:
        """The server's warden knows the lease until no work is left that could do harm."""
        if not self._work_is_gone:
            self.server.warden.guard(self.session_id, self._lease.until, self._runner.process.pid)

    def _release(self) -> None:
        self._work_is_gone = True
        self.server.warden.release(self.session_id)

    async def _follow(self) -> AttemptOutcome:
        self._guard()
        end = await self._work()
        self._work_over.set()
        if end.state is not ExecutionState.FINISHED:
            await self._clean_up()
            self._release()
            return self._outcome_of(end)
        self._release()
        outcome = self._outcome_of(end)
        # Whoever hears of it may ask for what it said.
        await self._runner.process.output_caught_up()
        self._listener(Finished(outcome))
        await self._clean_up()
        return outcome

    def _outcome_of(self, end: _End) -> AttemptOutcome:
        return AttemptOutcome(
            job_id=self._task.graph.job_id,
            region=self._task.region_id,
            attempt=self._task.attempt,
            state=end.state,
            at=self._means.wall_clock(),
            failure=end.failure,
            progress=self._linked(end.progress),
        )

    # The work

    async def _work(self) -> _End:
        allowed = self._means.options.runner_run_time
        if allowed is None or self._task.region.streaming:
            return await self._live()
        try:
            async with asyncio.timeout(allowed.total_seconds()):
                return await self._live()
        except TimeoutError:
            await self._runner.process.kill()
            return self._failed(too_slow(allowed.total_seconds()))

    async def _live(self) -> _End:
        resumed: Progress | None = None
        while True:
            began = asyncio.get_running_loop().time()
            end = await self._within_limits(resumed)
            if end is not None:
                return end
            ending = await self._runner.process.kill()
            if asyncio.get_running_loop().time() - began > _FORGIVEN_AFTER_SECONDS:
                self._takeovers = 0
            if not await self._taken_over():
                return self._runner_died(ending)
            resumed = self._last_progress

    async def _within_limits(self, resumed: Progress | None) -> _End | None:
        pid = self._runner.process.pid
        if pid is None:
            return await self._with_server(resumed)
        broken = asyncio.create_task(until_limit_broken(pid, self._limits))
        try:
            return await unless(broken, self._with_server(resumed))
        except Stopped:
            await self._runner.process.kill()
            return self._failed(broken.result())
        finally:
            broken.cancel()

    async def _with_server(self, resumed: Progress | None) -> _End | None:
        """None when the runner died."""
        server_died = self.server.died
        try:
            ended = await unless(server_died, self._run(resumed))
        except Stopped:
            return self._server_died()
        if ended is None:
            return None
        if ended.server_lost and await has_ended(self.server):
            return self._server_died()
        return _End(state=ended.state, failure=ended.failure, progress=ended.progress)

    async def _run(self, resumed: Progress | None) -> Ended | None:
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
                artifacts={name: str(path.absolute()) for name, path in task.artifacts.items()},
                limits=self._limits,
                resumed=resumed,
                lease=self._lease,
                deaf_after=self._deaf_after(),
            )
        )
        if self._cancel_asked:
            # Asked for while no runner could hear it.
            await self._runner.process.send(Cancel())
        while (message := await self._runner.process.receive()) is not None:
            match message:
                case StateReport(state=state):
                    self._listener(StateChanged(state))
                case ProgressReport(progress=progress):
                    self._last_progress = progress
                    self._listener(Progressed(self._linked(progress)))
                case Ended():
                    return message
        return None

    async def _taken_over(self) -> bool:
        """A streaming query does not need its runner: another one can watch it."""
        known = self._last_progress
        if self._cancel_asked or known.run_id is None or self._takeovers >= _TAKEOVERS:
            return False
        if self._lease_has_run_out():
            return False
        self._takeovers += 1
        failpoint("takeover.before-attaching")
        successor = await self._means.pool.attach(self.server, self._runner.session_id)
        failpoint("takeover.after-attaching")
        if not isinstance(successor, WarmRunner):
            return False
        self._runner, self._has_task = successor, False
        self._guard()
        return True

    def _lease_has_run_out(self) -> bool:
        return self._lease.due(asyncio.get_running_loop().time()) is not LeaseStep.GO_ON

    def _linked(self, progress: Progress) -> Progress:
        return msgspec.structs.replace(progress, spark_ui=self.server.ui or None)

    # Its end

    def _server_died(self) -> _End:
        reason = self.server.died.result()
        message = f"the Spark server of the task died: {reason}"
        labels = {"cause": NEIGHBOUR} if self.server.verdict.is_neighbours else {}
        return self._failed(Failure(error="SparkServerDied", message=message, labels=labels))

    def _runner_died(self, ending: str) -> _End:
        hint = ""
        if any(name in ending for name in ("SIGKILL", "SIGABRT")) and not self._cancel_asked:
            hint = "; the machine, or what runner.memory allows, may have run out of memory"
        code = exit_code_in(ending)
        if isinstance(self._task.graph.vertex(self._task.region_id), Program) and code is not None:
            return self._failed(failure_of_death(ending, code, hint))
        message = f"the process that ran the task's code ended by itself: {ending}{hint}"
        return self._failed(Failure(error="RunnerDied", message=message))

    def _failed(self, failure: Failure) -> _End:
        if self._cancel_asked:
            return _End(state=ExecutionState.CANCELED, progress=self._last_progress)
        if self._lease_has_run_out():
            # Whatever ended it then, another attempt may be there to go on.
            failure, state = lease_ran_out(), ExecutionState.CANCELED
            return _End(state=state, failure=failure, progress=self._last_progress)
        return _End(state=ExecutionState.FAILED, failure=failure, progress=self._last_progress)

    async def _clean_up(self) -> None:
        """Returns when the runner's processes and the session's work are gone."""
        runner, deaf_at = self._runner, self._ending_since() + self._deaf_after()
        going_on: SessionNotEnded | None = None
        if runner.process.is_alive and not self.server.died.done():
            try:
                async with asyncio.timeout(_RELEASE_SECONDS):
                    going_on = await unless(self.server.died, self._wait_for_release())
            except (TimeoutError, Stopped):
                pass
        if await self._gives_back():
            return
        ended = self._session
        if isinstance(ended, SessionKept):
            ended = await runner.leave()
        await runner.process.kill()
        if going_on is not None and going_on.deaf:
            await put_down_for(self.server, going_on)
        if ended is None:
            ended = await self._means.sessions.end(self.server, runner.session_id, deaf_at=deaf_at)
        if ended is not None and ended.workers:
            # Spark keeps them for as long as it lives itself: hundreds, in a day.
            await asyncio.to_thread(kill_marked, WORKER_MARK, ended.workers)

    async def _gives_back(self) -> bool:
        """A runner in which nothing of the task is left takes another one."""
        match self._session:
            case SessionKept():
                with_session = True
            case SessionEnded(is_as_new=True):
                with_session = False
            case _:
                return False
        await self._runner.process.output_caught_up()
        self._runner.process.log_aside()
        self._has_task = False
        self._gave_back = self._means.pool.take_back(self._runner, with_session=with_session)
        return self._gave_back

    async def _wait_for_release(self) -> SessionNotEnded | None:
        while (message := await self._runner.process.receive()) is not None:
            if isinstance(message, SessionEnded | SessionKept):
                self._session = message
                return None
            if isinstance(message, SessionNotEnded):
                return message
        return None

    def _ending_since(self) -> float:
        return self._cancel_at or asyncio.get_running_loop().time()

    def _deaf_after(self) -> float:
        return self._means.options.cancellation_timeout.total_seconds() or math.inf

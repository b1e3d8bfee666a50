"""An engine without Spark: tasks take virtual time and end as the configuration of their job says.

`fake.seconds` is the run time of each region (default 1). `fake.fails` is the number of attempts of
each region that fail first (default 0), after `fake.fail-seconds` (default: `fake.seconds`).
`fake.cancel-seconds` is the time that a cancelled attempt takes to end (default 0).
`fake.start-seconds` is the time that a launch takes (default 0). With `fake.no-boundary` a stream
finds no batch boundary.
"""

import asyncio
from collections.abc import Mapping

from stoker.aio.clock import WallClock
from stoker.core.errors import Unavailable
from stoker.core.results import AttemptOutcome, Failure, Progress
from stoker.core.states import ExecutionState
from stoker.engine.contract import (
    EngineFigures,
    EngineState,
    Finished,
    Listener,
    Progressed,
    RunningTask,
    StateChanged,
    Task,
)
from stoker.engine.streams.control import Boundary, Decision, StreamControl, SuspendOrder
from stoker.testing.history import AttemptSpan, History

_CLEARING_SECONDS = 0.02
"""Seconds between the end of the work and the end of its clean-up."""


class FakeEngine:
    def __init__(self, executor: str, history: History, wall_clock: WallClock) -> None:
        self._executor = executor
        self._history = history
        self._wall_clock = wall_clock
        self._running: set[FakeRunningTask] = set()
        self._vanished = False

    @property
    def state(self) -> EngineState:
        return EngineState.READY

    @property
    def description(self) -> Mapping[str, str]:
        return {"engine": "fake"}

    @property
    def figures(self) -> EngineFigures:
        return EngineFigures(warm_runners=1)

    @property
    def tasks(self) -> list[Task]:
        """The tasks that run now."""
        return [running.task for running in self._running]

    async def wait_until_ready(self) -> None:
        return

    async def launch(self, task: Task, listener: Listener) -> RunningTask:
        if self._vanished:
            raise Unavailable("the machine of this engine is gone")
        if starting := task.graph.configuration.get("fake.start-seconds"):
            await asyncio.sleep(float(starting))
        span = AttemptSpan(
            task.graph.job_id,
            task.region_id,
            task.attempt,
            self._executor,
            asyncio.get_running_loop().time(),
        )
        self._history.attempts.append(span)
        running = FakeRunningTask(task, listener, span, self._wall_clock)
        self._running.add(running)
        running.work.add_done_callback(lambda _: self._running.discard(running))
        return running

    def vanish(self) -> None:
        """End everything at once and without a trace, as if the machine were gone."""
        self._vanished = True
        for running in list(self._running):
            running.vanish()

    async def close(self) -> None:
        await asyncio.gather(*(running.cancel() for running in list(self._running)))


class FakeRunningTask:
    def __init__(
        self, task: Task, listener: Listener, span: AttemptSpan, wall_clock: WallClock
    ) -> None:
        self.task = task
        self._listener = listener
        self._span = span
        self._wall_clock = wall_clock
        self._finished: AttemptOutcome | None = None
        self._outcome: asyncio.Future[AttemptOutcome] = asyncio.get_running_loop().create_future()
        self.work = asyncio.create_task(self._work(), name=f"fake task {task.attempt}")

    async def _work(self) -> None:
        self._listener(StateChanged(ExecutionState.INITIALIZING))
        await asyncio.sleep(0.05)
        self._listener(StateChanged(ExecutionState.RUNNING))
        settings = self.task.graph.configuration
        seconds = float(settings.get("fake.seconds", "1"))
        is_to_fail = self.task.attempt_number < int(settings.get("fake.fails", "0"))
        if is_to_fail:
            seconds = float(settings.get("fake.fail-seconds", seconds))
        if await self._is_over_within(seconds / 2):
            return
        self._listener(Progressed(Progress(tasks_total=2, tasks_done=1)))
        if await self._is_over_within(seconds / 2):
            return
        if is_to_fail:
            failure = Failure(error="FakeFailure", message="asked for by fake.fails")
            self._end(ExecutionState.FAILED, failure)
        else:
            self._finished = self._outcome_of(ExecutionState.FINISHED)
            self._span.ended = asyncio.get_running_loop().time()
            self._listener(Finished(self._finished))
            await asyncio.sleep(_CLEARING_SECONDS)
            self._end(ExecutionState.FINISHED)

    async def _is_over_within(self, seconds: float) -> bool:
        """Work for this long; return early with True if an order to suspend has ended the stream.

        A batch boundary is reached at once or never.
        """
        if not self.task.region.streaming:
            await asyncio.sleep(seconds)
            return False
        control = StreamControl(self.task.directory)
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while loop.time() < until:
            order = control.order()
            if order is not None and await self._is_finished_by(control, order):
                self._end(ExecutionState.FINISHED)
                return True
            await asyncio.sleep(min(1.0, until - loop.time()))
        return False

    async def _is_finished_by(self, control: StreamControl, order: SuspendOrder) -> bool:
        loop = asyncio.get_running_loop()
        reached = self.task.graph.configuration.get("fake.no-boundary") is None
        deadline = loop.time() + (order.hold_seconds if reached else order.limit_seconds)
        if reached:
            control.answer(Boundary(order_id=order.order_id, reached=True, batch_id=0))
        decision: Decision | None = None
        while loop.time() < deadline and (decision is None or not reached):
            await asyncio.sleep(0.1)
            decision = control.decision(order.order_id)
        control.clear_order()
        if not reached:
            reason = "fake.no-boundary says so"
            control.answer(Boundary(order_id=order.order_id, reached=False, reason=reason))
        return reached and decision is not None and decision.finish

    def _end(self, state: ExecutionState, failure: Failure | None = None) -> None:
        if self._span.ended is None:
            self._span.ended = asyncio.get_running_loop().time()
        self._outcome.set_result(self._finished or self._outcome_of(state, failure))

    def _outcome_of(self, state: ExecutionState, failure: Failure | None = None) -> AttemptOutcome:
        return AttemptOutcome(
            job_id=self.task.graph.job_id,
            region=self.task.region_id,
            attempt=self.task.attempt,
            state=state,
            at=self._wall_clock(),
            failure=failure,
            progress=Progress(tasks_total=2, tasks_done=2),
        )

    async def outcome(self) -> AttemptOutcome:
        return await asyncio.shield(self._outcome)

    def renew_lease(self, until: float) -> None:
        """Does nothing: the fake task has no process that could outlive its task executor."""

    async def cancel(self) -> None:
        if self._outcome.done():
            return
        seconds = float(self.task.graph.configuration.get("fake.cancel-seconds", "0"))
        await asyncio.sleep(0 if self._span.ended is not None else seconds)
        self.work.cancel()
        await asyncio.gather(self.work, return_exceptions=True)
        if not self._outcome.done():
            self._end(ExecutionState.CANCELED)

    def vanish(self) -> None:
        self.work.cancel()
        if self._span.ended is None:
            self._span.ended = asyncio.get_running_loop().time()

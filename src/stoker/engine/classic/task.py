"""A task in a driver of its own, from launch until none of the driver's processes is left.

The driver and everything that it starts are below a supervisor, which ends only when all of them
are gone. So the end of the supervisor is the proof that nothing of the task is left.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import timedelta

from stoker.aio.clock import WallClock
from stoker.core.errors import StokerError
from stoker.core.graph import Program
from stoker.core.results import AttemptOutcome, Failure, Progress
from stoker.core.states import ExecutionState
from stoker.engine.classic.driver_client import DriverProcess
from stoker.engine.classic.exits import End, end_of
from stoker.engine.classic.pool import DriverPool
from stoker.engine.contract import Listener, Progressed, StateChanged, Task
from stoker.engine.lease import Lease, LeaseStep, lease_expired
from stoker.engine.limits import RunnerLimits, too_slow
from stoker.engine.protocol import (
    Ended,
    LeaseRenewed,
    Malformed,
    ProgressReport,
    RunTask,
    StateReport,
)
from stoker.engine.reports import failure_of_malformed
from stoker.engine.spark_masters import find_absent_master

Install = Callable[[Task, ExitStack], Awaitable[tuple[str, ...]]]
"""Installs what the task needs; returns directories for Python's search path.

They stay until the stack is closed.
"""

_EXTRA_SECONDS = 3.0
"""Time beyond the grace period in which the supervisor kills the driver's processes."""


class ClassicTask:
    def __init__(
        self,
        task: Task,
        pool: DriverPool,
        listener: Listener,
        *,
        install: Install,
        limits: RunnerLimits,
        run_time: timedelta | None,
        grace: timedelta,
        wall_clock: WallClock,
    ) -> None:
        self._task = task
        self._pool = pool
        self._listener = listener
        self._install = install
        self._limits = limits
        self._run_time = run_time
        self._grace = grace.total_seconds()
        self._wall_clock = wall_clock
        self._installed = ExitStack()
        """Keeps what was installed for the task."""
        self._driver: DriverProcess | None = None
        self._lease = Lease(until=task.lease_until, margin=task.lease_margin)
        self._has_task = False
        """Whether the driver has been given the task, and with it the lease."""
        self._is_cancelled = False
        self._progress = Progress()
        self._preparing = asyncio.create_task(self._prepare(), name=f"prepare-{task.attempt}")
        self.completion = asyncio.create_task(self._follow(), name=f"attempt-{task.attempt}")

    async def outcome(self) -> AttemptOutcome:
        return await asyncio.shield(self.completion)

    def renew_lease(self, until: float) -> None:
        self._lease = self._lease.renewed(until)
        if self._has_task and self._driver is not None and self._driver.is_alive:
            self._driver.post(LeaseRenewed(until=self._lease.until))

    async def cancel(self) -> None:
        self._is_cancelled = True
        self._preparing.cancel()
        if (driver := self._driver) is not None and driver.is_alive:
            driver.ask_to_end()
            await asyncio.wait([driver.exited], timeout=self._grace + _EXTRA_SECONDS)
            await driver.kill()
        await self.outcome()

    async def kill(self) -> None:
        """Cancel without a grace period."""
        self._is_cancelled = True
        self._preparing.cancel()
        if self._driver is not None:
            await self._driver.kill()
        await self.outcome()

    async def _follow(self) -> AttemptOutcome:
        end = await self._end()
        return AttemptOutcome(
            job_id=self._task.graph.job_id,
            region=self._task.region_id,
            attempt=self._task.attempt,
            state=end.state,
            at=self._wall_clock(),
            failure=end.failure,
            progress=self._progress,
        )

    async def _end(self) -> End:
        with self._installed:
            try:
                return await self._work()
            finally:
                if self._driver is not None:
                    await self._driver.kill()

    async def _work(self) -> End:
        await asyncio.wait([self._preparing])
        if self._preparing.cancelled():
            return End(state=ExecutionState.CANCELED)
        prepared = self._preparing.result()
        if isinstance(prepared, Failure):
            return End(state=ExecutionState.FAILED, failure=prepared)
        if self._is_cancelled:
            return End(state=ExecutionState.CANCELED)
        ended = await self._run_in_time(prepared)
        code = await asyncio.shield(prepared.exited)
        now = asyncio.get_running_loop().time()
        if code != 0 and not self._is_cancelled and self._lease.due(now) is not LeaseStep.CONTINUE:
            return End(state=ExecutionState.CANCELED, failure=lease_expired())
        output = prepared.last_words, prepared.last_output
        return end_of(code, ended, *output, cancelled=self._is_cancelled)

    async def _prepare(self) -> DriverProcess | Failure:
        task = self._task
        vertex = task.graph.vertex(task.region_id)
        environment = vertex.environment if isinstance(vertex, Program) else {}
        self._listener(StateChanged(ExecutionState.INITIALIZING))
        absent = await find_absent_master(task.graph.configuration.get("spark.master", ""))
        if absent is not None:
            return Failure(error="SparkMasterAbsent", message=absent)
        try:
            python_path = await self._install(task, self._installed)
            driver = await self._pool.take(task.graph.configuration, environment)
            self._driver = driver
        except StokerError as error:
            return Failure(
                error=type(error).__name__, message=str(error), retriable=error.retriable
            )
        driver.log_to(task.directory)
        self._has_task = True
        await driver.send(self._message(python_path))
        return driver

    def _message(self, python_path: tuple[str, ...]) -> RunTask:
        task = self._task
        return RunTask(
            graph=task.graph,
            region=task.region,
            attempt=task.attempt,
            directory=str(task.directory.absolute()),
            materialized_root=task.materialized_root,
            checkpoint_root=task.checkpoint_root,
            rows_root=task.rows_root,
            artifacts={name: os.path.abspath(path) for name, path in task.artifacts.items()},
            python_path=python_path,
            limits=self._limits,
            lease=self._lease,
        )

    async def _run_in_time(self, driver: DriverProcess) -> Ended | None:
        if self._run_time is None or self._task.region.streaming:
            return await self._run(driver)
        seconds = self._run_time.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                return await self._run(driver)
        except TimeoutError:
            await driver.kill()
            return Ended(state=ExecutionState.FAILED, failure=too_slow(seconds))

    async def _run(self, driver: DriverProcess) -> Ended | None:
        """Follow the driver until it closes its channel; returns how the user's code ended."""
        ended: Ended | None = None
        while (message := await driver.receive()) is not None:
            match message:
                case StateReport(state=state):
                    self._listener(StateChanged(state))
                # A later report comes from Spark's UI, which knows less than the end.
                case ProgressReport(progress=progress) if ended is None:
                    self._progress = progress
                    self._listener(Progressed(progress))
                case Malformed():
                    await driver.kill()
                    failure = failure_of_malformed(message)
                    return Ended(state=ExecutionState.FAILED, failure=failure)
                case Ended():
                    ended = message
                    if message.progress != Progress():
                        self._progress = message.progress
                case _:
                    pass
        return ended

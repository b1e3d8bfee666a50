"""Suspending all streams of a job at batch boundaries, then finishing or resuming them.

A suspended stream resumes by itself when no decision comes in time, so that a lost master cannot
leave it suspended for ever. A savepoint is therefore valid only if every stream is still suspended
when it is complete.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from stoker.core.errors import NotFound, SavepointFailed, StokerError
from stoker.core.ids import AttemptId
from stoker.core.states import ExecutionState
from stoker.gateways.taskexecutor import Suspension, TaskExecutorGateway
from stoker.jobmaster.job import JobDriver
from stoker.jobmaster.regions import RegionAttempts

log = logging.getLogger(__name__)

POLL_SECONDS = 0.1
ANSWER_SECONDS = 15.0
"""Added to the limit for the boundary: time for calls and for Spark to end the query."""
FINISH_SECONDS = 0.5
RESUME_SECONDS = 5.0


def streaming_regions(job: JobDriver) -> list[RegionAttempts]:
    return [run for run in job.graph.runs if run.region.streaming]


class Streams:
    """The streams of a job under one order to suspend."""

    def __init__(self, job: JobDriver, order: str) -> None:
        self._job = job
        self._order = order
        self._asked: dict[AttemptId, RegionAttempts] = {}

    async def suspend(self, limit: float, hold: float) -> None:
        """Suspend all streams at a batch boundary, or resume all and raise SavepointFailed."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit + ANSWER_SECONDS
        waiting = [run for run in streaming_regions(self._job) if not run.is_finished]
        self._asked = {run.current.id: run for run in waiting}
        try:
            for attempt, run in self._asked.items():
                await self._gateway(run).suspend_task(
                    self._job.token, self._job.job_id, attempt, self._order, limit, hold
                )
            for attempt, run in self._asked.items():
                await self._await_boundary(attempt, run, deadline)
        except StokerError as error:
            await self.resume()
            raise SavepointFailed(f"the job was not stopped and continues: {error}") from error

    async def _await_boundary(
        self, attempt: AttemptId, run: RegionAttempts, deadline: float
    ) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < deadline:
            if run.current.id != attempt:
                raise SavepointFailed(f"{run.region.id} failed and restarts")
            if run.is_finished:
                return
            state = await self._state(attempt, run)
            if state.refused is not None:
                raise SavepointFailed(f"{run.region.id} reached no batch boundary: {state.refused}")
            if state.reached:
                return
            await asyncio.sleep(POLL_SECONDS)
        raise SavepointFailed(f"{run.region.id} did not report the end of its batch in time")

    async def _state(self, attempt: AttemptId, run: RegionAttempts) -> Suspension:
        try:
            return await self._gateway(run).suspension(
                self._job.token, self._job.job_id, attempt, self._order
            )
        except NotFound:
            # The attempt has ended and its outcome is on the way.
            return Suspension(asked=True)

    async def require_suspended(self) -> None:
        """Raise SavepointFailed unless every stream is still suspended."""
        for attempt, run in self._asked.items():
            if run.current.id == attempt and run.is_finished:
                continue
            held = run.current.id == attempt and (await self._state(attempt, run)).reached
            if not held:
                raise SavepointFailed(
                    f"{run.region.id} resumed before the savepoint was complete; the job continues"
                )

    async def resume(self) -> None:
        """Resume the streams and wait for a limited time until they have."""
        for attempt, run in self._asked.items():
            await self._decide(attempt, run, finish=False)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RESUME_SECONDS):
                await self.release()

    async def release(self) -> None:
        """Resume every running stream; returns when all have resumed.

        A stream that restarts is not suspended. The request is repeated when a task executor does
        not answer.
        """
        job = self._job
        known = {
            run.current.id: run
            for run in streaming_regions(job)
            if run.current.state in (ExecutionState.RECONCILING, ExecutionState.RUNNING)
        }
        while known and not job.graph.status.terminal:
            for attempt, run in list(known.items()):
                replaced = run.current.id != attempt or run.current.state.terminal
                if replaced or await self._has_resumed(attempt, run):
                    del known[attempt]
            if known:
                await asyncio.sleep(POLL_SECONDS)

    async def _has_resumed(self, attempt: AttemptId, run: RegionAttempts) -> bool:
        """Ask the stream to resume; True once it has. Until then it would miss a new order."""
        job = self._job
        try:
            gateway = self._gateway(run)
            state = await gateway.suspension(job.token, job.job_id, attempt, self._order)
            waits = state.asked and state.refused is None
            if waits:
                await gateway.decide_suspended(job.token, job.job_id, attempt, self._order, False)
        except NotFound:
            return True
        except StokerError as error:
            log.debug("%s could not be resumed yet: %s", attempt, error)
            return False
        return not waits

    async def finish(self) -> None:
        """Finish all streams, repeating the request until they have ended."""
        job = self._job
        while not job.graph.status.terminal and not all(
            r.is_finished for r in streaming_regions(job)
        ):
            for run in streaming_regions(job):
                if run.current.state is ExecutionState.RUNNING:
                    await self._finish_one(run)
            await asyncio.sleep(FINISH_SECONDS)

    async def _finish_one(self, run: RegionAttempts) -> None:
        """Finish a stream; one that is not suspended ends at its next batch boundary."""
        job, attempt = self._job, run.current.id
        await self._decide(attempt, run, finish=True)
        try:
            await self._gateway(run).suspend_task(
                job.token, job.job_id, attempt, self._order, ANSWER_SECONDS, ANSWER_SECONDS
            )
        except StokerError as error:
            log.info("%s is not finished yet: %s", attempt, error)

    async def _decide(self, attempt: AttemptId, run: RegionAttempts, *, finish: bool) -> None:
        job = self._job
        try:
            await self._gateway(run).decide_suspended(
                job.token, job.job_id, attempt, self._order, finish
            )
        except StokerError as error:
            # A suspended stream resumes by itself after its hold time.
            log.info("could not %s %s: %s", "finish" if finish else "resume", attempt, error)

    def _gateway(self, run: RegionAttempts) -> TaskExecutorGateway:
        slot = run.current.slot
        executor = self._job.executors.get(slot.instance) if slot else None
        if executor is None:
            raise SavepointFailed(f"the task executor of {run.region.id} is not connected")
        return executor.gateway


def run_in_job_scope(
    job: JobDriver, name: str, work: Callable[[], Coroutine[Any, Any, Any]]
) -> "asyncio.Future[Any]":
    """Run work that ends with this job master; the future always gets a result."""
    result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        try:
            result.set_result(await work())
        except StokerError as error:
            result.set_exception(error)
        finally:
            if not result.done():
                result.set_exception(
                    SavepointFailed(f"the master of job {job.job_id} ended before {name} was done")
                )
            result.exception()  # Marks the exception as retrieved: perhaps no caller waits for it.

    job.scope.spawn(name, run())
    return result

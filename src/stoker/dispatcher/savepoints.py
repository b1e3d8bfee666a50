"""Savepoints that were triggered at the leading dispatcher, by trigger id.

The REST server may have to repeat a call whose answer it did not receive. A repeated trigger must
not take a second savepoint, so the same id means the same operation, and its outcome is kept here
for later queries.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from stoker.core.checkpoints import SavepointRequest, SavepointTaken
from stoker.core.errors import (
    CannotTakeSavepoint,
    Conflict,
    InvalidInput,
    NotFound,
    StokerError,
)
from stoker.core.ids import JobId
from stoker.dispatcher.jobs import LiveJobs
from stoker.gateways.dispatcher import SavepointStatus
from stoker.gateways.job import JobToRun, RunningJob

log = logging.getLogger(__name__)

MAX_OPERATIONS = 1000
"""Beyond this number the oldest finished operations are forgotten."""

CancelJob = Callable[[JobId], Awaitable[None]]


@dataclass
class _TriggeredSavepoint:
    request: SavepointRequest
    task: "asyncio.Task[SavepointStatus]"


class SavepointTriggers:
    def __init__(self, jobs: LiveJobs) -> None:
        self._jobs = jobs
        self._operations: dict[tuple[JobId, str], _TriggeredSavepoint] = {}

    def trigger(
        self, job_id: JobId, trigger_id: str, request: SavepointRequest, cancel: CancelJob
    ) -> None:
        """Begin the operation, or do nothing when it was triggered with this id before."""
        key = (job_id, trigger_id)
        known = self._operations.get(key)
        if known is not None:
            if known.request != request:
                raise Conflict(
                    f"trigger id {trigger_id} was used for another savepoint of job {job_id}; "
                    "choose another id"
                )
            return
        if request.stop and request.cancel:
            raise InvalidInput("a job is either stopped or cancelled with a savepoint, not both")
        self._forget_old()
        task = self._jobs.scope.spawn(
            f"savepoint {trigger_id}", self._take(job_id, request, cancel)
        )
        self._operations[key] = _TriggeredSavepoint(request, task)

    def running_tasks(self) -> set["asyncio.Task[SavepointStatus]"]:
        return {each.task for each in self._operations.values() if not each.task.done()}

    def stopped_jobs(self) -> set[JobId]:
        """Jobs that were stopped with a savepoint, whether or not their end is on record yet."""
        return {
            job_id
            for (job_id, _), each in self._operations.items()
            if each.request.stop and each.task.done() and each.task.result().taken is not None
        }

    def has(self, job_id: JobId, trigger_id: str) -> bool:
        return (job_id, trigger_id) in self._operations

    async def _take(
        self, job_id: JobId, request: SavepointRequest, cancel: CancelJob
    ) -> SavepointStatus:
        try:
            job = self._jobs.get(job_id)
            running = job.running.value if job is not None else None
            if running is None:
                raise CannotTakeSavepoint(f"job {job_id} is not running; try again when it is")
            assert job is not None
            taken = await self._take_recorded(job.to_run, running, request)
            if request.cancel:
                await cancel(job_id)
        except StokerError as error:
            return SavepointStatus(done=True, error=type(error).__name__, message=error.message)
        return SavepointStatus(done=True, taken=taken)

    async def _take_recorded(
        self, to_run: JobToRun, running: RunningJob, request: SavepointRequest
    ) -> SavepointTaken:
        events = self._jobs.events
        events.savepoint_begun(to_run, request)
        try:
            taken = await running.savepoint(request)
        except StokerError as error:
            events.savepoint_failed(to_run, error.message)
            raise
        events.savepoint_completed(to_run, taken)
        return taken

    async def status(self, job_id: JobId, trigger_id: str, seconds: float) -> SavepointStatus:
        operation = self._operations.get((job_id, trigger_id))
        if operation is None:
            raise NotFound(
                f"no savepoint of job {job_id} was triggered with id {trigger_id} at this leader"
            )
        await asyncio.wait({operation.task}, timeout=seconds)
        return operation.task.result() if operation.task.done() else SavepointStatus(done=False)

    def _forget_old(self) -> None:
        done = [key for key, operation in self._operations.items() if operation.task.done()]
        for key in done[: max(0, len(self._operations) - MAX_OPERATIONS)]:
            del self._operations[key]

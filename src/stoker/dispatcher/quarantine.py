"""Quarantine: accepted jobs that cannot be loaded, or must not run at the moment.

A job was acknowledged, and now its record or its graph cannot be read. The dispatcher can neither
run the job nor forget it, and one such job must not keep all others from being recovered. So the
job is listed with the reason, all its bytes are kept, and loading is retried, since a storage may
recover and a file may be restored. A stream that has not begun while another one writes its output
waits here too, until the other one has ended. An operator can retry at once, cancel the job, or
drop it, which records it as FAILED.

Invariant: a job is never both here and among the live jobs. Cancel, retry and drop hold the lock of
the job; otherwise a retry could start a job that was just dropped, or start it without the
cancellation that was just acknowledged.
"""

import asyncio
import logging
from datetime import timedelta
from typing import Final, Protocol

import msgspec

from stoker.aio.clock import WallClock
from stoker.aio.log_context import bind_log_fields
from stoker.aio.retry import Backoff
from stoker.aio.scope import TaskScope
from stoker.core.errors import (
    CorruptContent,
    JobNotFound,
    JobQuarantined,
    NotFound,
    OutputInUse,
    StokerError,
    StorageUnavailable,
)
from stoker.core.graph import JobType
from stoker.core.ids import JobId
from stoker.core.results import (
    Failure,
    FailureRecord,
    JobDetails,
    JobResult,
)
from stoker.core.states import JobStatus
from stoker.core.values import Millis
from stoker.dispatcher.job_events import JobEvents
from stoker.dispatcher.output_reservations import OutputReservations
from stoker.dispatcher.recovery import Recovery, decide_recovery
from stoker.dispatcher.stores import Stores
from stoker.gateways.dispatcher import QuarantinedJob
from stoker.gateways.job import JobEnd, JobToRun
from stoker.ha.stores.job_graphs import JobRecord, StoredJob
from stoker.ha.stores.job_results import UnreadableJob

log = logging.getLogger(__name__)

RETRIES: Final = Backoff(initial=timedelta(seconds=1), maximum=timedelta(seconds=30))
"""Quick at first, because most files that cannot be read can be read a moment later."""


class QuarantineHost(Protocol):
    """The live jobs, to which a job returns when it can be loaded."""

    outputs: OutputReservations

    @property
    def scope(self) -> TaskScope: ...

    def start(self, to_run: JobToRun) -> None: ...

    async def record_end(self, end: JobEnd) -> None:
        """Record the end of a job that cannot be run, and begin its clean-up."""
        ...


class Quarantine:
    def __init__(
        self,
        recovery: Recovery,
        *,
        stores: Stores,
        host: QuarantineHost,
        events: JobEvents,
        wall_clock: WallClock,
    ) -> None:
        self._events = events
        self._stores = stores
        self._host = host
        self._wall_clock = wall_clock
        self._tries: dict[JobId, int] = {}
        """Kept after a release, so that a job that keeps coming back is retried less often."""
        now = wall_clock()
        self._jobs = {
            job.job_id: QuarantinedJob(
                job_id=job.job_id,
                reason=job.reason,
                since=now,
                pointer=job.pointer,
                cancel_wanted=job.job_id in recovery.broken_and_cancelled,
                owner=job.owner,
            )
            for job in recovery.broken
        }
        for job in recovery.broken:
            events.quarantined(job.job_id, job.reason, owner=job.owner)

    def add(self, to_run: JobToRun, reason: str, *, cancel_wanted: bool) -> None:
        """Take in a job that was loaded, but whose job master found damaged records."""
        job_id = to_run.graph.job_id
        log.error("job %s goes to quarantine: %s", job_id, reason)
        graph = to_run.graph
        self._events.quarantined(job_id, reason, name=graph.name, owner=to_run.owner)
        self._jobs[job_id] = QuarantinedJob(
            job_id=job_id,
            reason=reason,
            since=self._wall_clock(),
            cancel_wanted=cancel_wanted,
            owner=to_run.owner,
        )
        self._host.scope.spawn(f"quarantine {job_id}", self.retry_until_released(job_id))

    def all(self) -> list[QuarantinedJob]:
        return [self._jobs[job_id] for job_id in sorted(self._jobs)]

    def owner(self, job_id: JobId) -> str:
        """Empty when the job is not here, or its record cannot be read."""
        job = self._jobs.get(job_id)
        return job.owner if job else ""

    def contains(self, job_id: JobId) -> bool:
        return job_id in self._jobs

    def holds_uncancelled(self, job_id: JobId) -> bool:
        """Whether the job is here and nobody has asked to cancel it."""
        job = self._jobs.get(job_id)
        return job is not None and not job.cancel_wanted

    def check_absent(self, job_id: JobId) -> None:
        """Raise JobQuarantined when the job is here."""
        if (job := self._jobs.get(job_id)) is not None:
            raise _refusal(job)

    async def cancel(self, job_id: JobId) -> bool:
        """Make the cancellation durable for a later load of the job; False when it is not here."""
        async with self._stores.locks(job_id):
            job = self._jobs.get(job_id)
            if job is None:
                return False
            await self._stores.cancellations.cancel(job_id, at=self._wall_clock())
            self._jobs[job_id] = msgspec.structs.replace(job, cancel_wanted=True)
            return True

    async def retry(self, job_id: JobId) -> None:
        """Load the job and start it. JobQuarantined when it still cannot be loaded."""
        async with self._stores.locks(job_id):
            job = self._find(job_id)
            if await self._stores.results.get(job_id) is not None:
                # The outcome of an earlier drop was unknown, but its result is on record.
                await self._end(job)
                return
            match await self._load(job):
                case StoredJob() as stored:
                    cancelled = await self._stores.cancellations.all()
                    admitted = await self._stores.attempts.jobs()
                    [to_run] = decide_recovery([stored], [], cancelled, admitted).run
                    self._check_outputs(job, to_run)
                    log.info("job %s leaves quarantine: it can be loaded again", job_id)
                    self._events.released(to_run)
                    self._host.start(to_run)
                    del self._jobs[job_id]
                case UnreadableJob(reason=reason, pointer=pointer):
                    changed = msgspec.structs.replace(job, reason=reason, pointer=pointer)
                    self._jobs[job_id] = changed
                    raise _refusal(changed)
                case None:
                    del self._jobs[job_id]
                    raise JobNotFound(job_id)

    def _check_outputs(self, job: QuarantinedJob, to_run: JobToRun) -> None:
        """Keep the job here while another stream writes its output; a cancelled one only ends."""
        if to_run.cancel_wanted:
            return
        try:
            self._host.outputs.check(to_run.graph)
        except OutputInUse as error:
            changed = msgspec.structs.replace(job, reason=str(error))
            self._jobs[job.job_id] = changed
            raise _refusal(changed) from error

    async def drop(self, job_id: JobId) -> None:
        """Record the job as failed, so that its id never runs again; then remove its bytes."""
        async with self._stores.locks(job_id):
            job = self._find(job_id)
            log.warning("job %s is dropped from quarantine: %s", job_id, job.reason)
            await self._end(job)

    async def retry_until_released(self, job_id: JobId) -> None:
        """Returns when the job is no longer here."""
        bind_log_fields(job=job_id)
        while True:
            failures = self._tries.get(job_id, 0)
            await asyncio.sleep(RETRIES.delay(failures).total_seconds())
            self._tries[job_id] = failures + 1
            if job_id not in self._jobs:
                return
            try:
                await self.retry(job_id)
            except StokerError as error:
                log.info("%s", error)
            else:
                return

    def _find(self, job_id: JobId) -> QuarantinedJob:
        job = self._jobs.get(job_id)
        if job is None:
            raise NotFound(
                f"no job with id {job_id} is in quarantine; stoker quarantine list shows the jobs "
                "that are",
                job_id=job_id,
            )
        return job

    async def _load(self, job: QuarantinedJob) -> StoredJob | UnreadableJob | None:
        try:
            stored = await self._stores.graphs.get(job.job_id)
            await self._stores.attempts.of_job(job.job_id)
            return stored
        except (StorageUnavailable, CorruptContent) as error:
            # Only this content seems to be damaged, and no other master would read it either.
            return UnreadableJob(job_id=job.job_id, reason=str(error), pointer=job.pointer)

    async def _end(self, job: QuarantinedJob) -> None:
        try:
            record = await self._stores.graphs.record(job.job_id)
        except CorruptContent:
            record = None
        await self._host.record_end(_end_of(job, record, self._wall_clock()))
        del self._jobs[job.job_id]


def _refusal(job: QuarantinedJob) -> JobQuarantined:
    return JobQuarantined(job.job_id, job.reason, cancel_wanted=job.cancel_wanted)


def was_dropped(result: JobResult) -> bool:
    return result.failure is not None and result.failure.error == JobQuarantined.__name__


def _end_of(job: QuarantinedJob, record: JobRecord | None, now: Millis) -> JobEnd:
    start = record.submitted_at if record else job.since
    failure = Failure(
        error=JobQuarantined.__name__,
        message=f"dropped from quarantine: {job.reason}",
        retriable=False,
    )
    details = JobDetails(
        job_id=job.job_id,
        name=record.name if record else job.job_id,
        # Only the graph has the type, and it may be what cannot be read.
        job_type=JobType.BATCH,
        status=JobStatus.FAILED,
        timestamps={JobStatus.INITIALIZING: start, JobStatus.FAILED: now},
        start=start,
        end=now,
        failures=(FailureRecord(failure=failure, at=now),),
        owner=job.owner,
    )
    return JobEnd(details=details, failure=failure)

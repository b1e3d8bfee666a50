"""Accepted jobs that cannot be loaded: shown with the reason, bytes kept, tried again (RUN-12).

What is done with one of them is done by one at a time: otherwise a job could be started that has
just been dropped, or without the cancel that has just been acknowledged.
"""

import asyncio
import logging
from datetime import timedelta
from typing import Final

import msgspec

from stoker.aio.clock import WallClock
from stoker.aio.log_context import bind_log_fields
from stoker.aio.retry import Backoff
from stoker.core.errors import (
    CorruptContent,
    JobNotFound,
    JobQuarantined,
    NotFound,
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
from stoker.dispatcher.job_locks import JobLocks
from stoker.dispatcher.jobs import LiveJobs
from stoker.dispatcher.recovery import Recovery, decide_recovery
from stoker.dispatcher.stores import Stores
from stoker.gateways.dispatcher import QuarantinedJob
from stoker.gateways.job import JobEnd, JobToRun
from stoker.ha.stores.job_graphs import JobRecord, StoredJob
from stoker.ha.stores.job_results import UnreadableJob

log = logging.getLogger(__name__)

RETRIES: Final = Backoff(initial=timedelta(seconds=1), maximum=timedelta(seconds=30))
"""Quick at first, since most that cannot be read can be read a moment later."""


class Quarantine:
    def __init__(
        self,
        recovery: Recovery,
        *,
        stores: Stores,
        live: LiveJobs,
        locks: JobLocks,
        wall_clock: WallClock,
    ) -> None:
        self._stores = stores
        self._live = live
        self._locks = locks
        self._wall_clock = wall_clock
        self._tries: dict[JobId, int] = {}
        """Of jobs that come back again and again, so that they do so less and less often."""
        now = wall_clock()
        self._jobs = {
            job.job_id: QuarantinedJob(
                job_id=job.job_id,
                reason=job.reason,
                since=now,
                pointer=job.pointer,
                cancel_wanted=job.job_id in recovery.broken_and_cancelled,
            )
            for job in recovery.broken
        }

    def put_aside(self, to_run: JobToRun, reason: str, cancel_wanted: bool) -> None:
        """Of a job that was loaded, but whose master found damaged records (JMR-06)."""
        job_id = to_run.graph.job_id
        log.error("job %s goes to quarantine: %s", job_id, reason)
        self._jobs[job_id] = QuarantinedJob(
            job_id=job_id,
            reason=reason,
            since=self._wall_clock(),
            cancel_wanted=cancel_wanted,
        )
        self._live.scope.spawn(f"quarantine {job_id}", self.keep_trying(job_id))

    def all(self) -> list[QuarantinedJob]:
        return [self._jobs[job_id] for job_id in sorted(self._jobs)]

    def has(self, job_id: JobId) -> bool:
        return job_id in self._jobs

    def is_wanted(self, job_id: JobId) -> bool:
        """Here, and nobody has asked for its end."""
        job = self._jobs.get(job_id)
        return job is not None and not job.cancel_wanted

    def check(self, job_id: JobId) -> None:
        """JobQuarantined when the job is here."""
        if (job := self._jobs.get(job_id)) is not None:
            raise _refusal(job)

    async def cancel(self, job_id: JobId) -> bool:
        """Make the request durable, for whoever loads the job; False when it is not here."""
        async with self._locks(job_id):
            job = self._jobs.get(job_id)
            if job is None:
                return False
            await self._stores.cancellations.cancel(job_id, at=self._wall_clock())
            self._jobs[job_id] = msgspec.structs.replace(job, cancel_wanted=True)
            return True

    async def retry(self, job_id: JobId) -> None:
        """Load the job and start it; JobQuarantined when that is still not possible."""
        async with self._locks(job_id):
            job = self._held(job_id)
            if await self._stores.results.get(job_id) is not None:
                # A drop whose outcome was unknown: what is on record counts.
                await self._end(job)
                return
            match await self._load(job):
                case StoredJob() as stored:
                    cancellations = await self._stores.cancellations.all()
                    begun = await self._stores.attempts.jobs()
                    [to_run] = decide_recovery([stored], [], cancellations, begun).run
                    log.info("job %s could be loaded at last", job_id)
                    self._live.start(to_run)
                    del self._jobs[job_id]
                case UnreadableJob(reason=reason, pointer=pointer):
                    changed = msgspec.structs.replace(job, reason=reason, pointer=pointer)
                    self._jobs[job_id] = changed
                    raise _refusal(changed)
                case None:
                    del self._jobs[job_id]
                    raise JobNotFound(job_id)

    async def drop(self, job_id: JobId) -> None:
        """Record that it failed, so that its id never runs again; its bytes go afterwards."""
        async with self._locks(job_id):
            job = self._held(job_id)
            log.warning("job %s is dropped from quarantine: %s", job_id, job.reason)
            await self._end(job)

    async def keep_trying(self, job_id: JobId) -> None:
        """Until the job is here no more: a storage may recover, a file be restored."""
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

    def _held(self, job_id: JobId) -> QuarantinedJob:
        job = self._jobs.get(job_id)
        if job is None:
            raise NotFound(
                f"no job with id {job_id} is in quarantine; stoker quarantine list shows those",
                job_id=job_id,
            )
        return job

    async def _load(self, job: QuarantinedJob) -> StoredJob | UnreadableJob | None:
        try:
            stored = await self._stores.graphs.get(job.job_id)
            await self._stores.attempts.of_job(job.job_id)
            return stored
        except (StorageUnavailable, CorruptContent) as error:
            # Of this content alone, as far as anyone can tell: no other master would do better.
            return UnreadableJob(job_id=job.job_id, reason=str(error), pointer=job.pointer)

    async def _end(self, job: QuarantinedJob) -> None:
        try:
            record = await self._stores.graphs.record(job.job_id)
        except CorruptContent:
            record = None
        await self._live.end_unrun(_end_of(job, record, self._wall_clock()))
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
        # The graph would tell, but it cannot be read.
        job_type=JobType.BATCH,
        status=JobStatus.FAILED,
        timestamps={JobStatus.INITIALIZING: start, JobStatus.FAILED: now},
        start=start,
        end=now,
        failures=(FailureRecord(failure=failure, at=now),),
    )
    return JobEnd(details=details, failure=failure)

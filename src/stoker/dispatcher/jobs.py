"""The jobs that have not ended, each with the task that carries it to its recorded end."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec

from stoker.aio.latest import Latest
from stoker.aio.log_context import bind_log_fields
from stoker.aio.retry import Backoff
from stoker.aio.scope import TaskScope
from stoker.core.description import plan_of
from stoker.core.errors import CorruptContent, Fenced, KeyExists, SessionExpired, StokerError
from stoker.core.ids import JobId
from stoker.core.results import JobDetails, JobResult, JobSummary, summary_of
from stoker.core.states import JobStatus
from stoker.dispatcher.cleanup import CleanupStep, clean_up, retries_of
from stoker.dispatcher.ended_jobs import EndedJobs
from stoker.dispatcher.job_index import LiveJobIndex
from stoker.dispatcher.options import DispatcherOptions
from stoker.dispatcher.queues import Queues
from stoker.dispatcher.services import DispatcherServices
from stoker.gateways.job import JobEnd, JobToRun, RunningJob
from stoker.ha.stores.job_results import JobResultStore

log = logging.getLogger(__name__)

STEADY_SECONDS = 60.0
"""A job master that broke after so long did well enough to be started again at once."""
LONGEST_PAUSE = timedelta(minutes=1)
"""Between two starts of a job master that breaks again and again."""

PutAside = Callable[[JobToRun, str, bool], None]
"""Takes a job that cannot be run, the reason, and whether its cancel was acknowledged."""


@dataclass
class LiveJob:
    to_run: JobToRun
    running: Latest[RunningJob | None]
    cancel_wanted: bool = False
    over: bool = False
    """Its end is on record."""
    led: bool = False
    """A master of it has begun and not ended: it alone decides about attempts."""
    why_waiting: Callable[[], str | None] = lambda: None
    """Why it is not its turn yet."""
    on_cancel: Callable[[], None] = lambda: None
    tell_change: Callable[[], None] = lambda: None
    news: Latest[int] = field(default_factory=lambda: Latest(0))
    """Counts what may have changed about it."""

    @property
    def status(self) -> JobStatus:
        if self.running.value is not None:
            status = self.running.value.status
            return _UNTIL_RECORDED.get(status, status)
        return JobStatus.CANCELLING if self.cancel_wanted else JobStatus.INITIALIZING

    def details(self) -> JobDetails:
        if self.running.value is not None:
            return _before_its_record(self.running.value.details())
        graph = self.to_run.graph
        return JobDetails(
            job_id=graph.job_id,
            name=graph.name,
            job_type=graph.job_type,
            status=self.status,
            timestamps={JobStatus.INITIALIZING: self.to_run.submitted_at},
            start=self.to_run.submitted_at,
            plan=plan_of(graph),
            waiting=self.why_waiting(),
        )

    def run_by(self, running: RunningJob | None) -> None:
        self.running.set(running)
        if running is not None:
            running.set_change_listener(self.tell_change)
        self.tell_change()

    @contextmanager
    def being_led(self) -> Iterator[None]:
        self.led = True
        try:
            yield
        finally:
            self.led = False

    def cancel(self) -> None:
        self.cancel_wanted = True
        self.on_cancel()
        if self.running.value is not None:
            self.running.value.cancel()
        self.tell_change()


_UNTIL_RECORDED = {
    JobStatus.FINISHED: JobStatus.RUNNING,
    JobStatus.FAILED: JobStatus.FAILING,
    JobStatus.CANCELED: JobStatus.CANCELLING,
}


def _before_its_record(details: JobDetails) -> JobDetails:
    """An end that is not on record yet could still be decided otherwise: nobody may see it."""
    if not details.status.globally_terminal:
        return details
    return msgspec.structs.replace(details, status=_UNTIL_RECORDED[details.status], end=None)


async def _until_begun(running: RunningJob) -> None:
    """Its master is there, or has failed already."""
    waits: set[asyncio.Future[Any]] = {
        asyncio.ensure_future(running.wait_for_change(JobStatus.INITIALIZING)),
        asyncio.ensure_future(running.ended()),
    }
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


def _nowhere_to_put(to_run: JobToRun, reason: str, _cancel_wanted: bool) -> None:
    raise CorruptContent(f"job {to_run.graph.job_id} cannot be run: {reason}")


def _pauses(options: DispatcherOptions) -> Backoff:
    first = options.master_restart_delay
    return Backoff(initial=first, maximum=max(first, LONGEST_PAUSE))


class LiveJobs:
    def __init__(
        self,
        services: DispatcherServices,
        results: JobResultStore,
        ended: EndedJobs,
        steps: tuple[CleanupStep, ...],
        queues: Queues,
    ) -> None:
        self._services = services
        self._results = results
        self._ended = ended
        self._steps = steps
        self._queues = queues
        self._jobs: dict[JobId, LiveJob] = {}
        self._cleaning: set[JobId] = set()
        self._recovering = asyncio.Semaphore(services.options.recovery_concurrency)
        self.scope = TaskScope("jobs")
        self.put_aside: PutAside = _nowhere_to_put
        """What becomes of a job whose records turn out to be damaged."""
        self.changes: Latest[int] = Latest(0)
        self.list = LiveJobIndex(self._summary)

    def get(self, job_id: JobId) -> LiveJob | None:
        return self._jobs.get(job_id)

    def ids(self) -> set[JobId]:
        return set(self._jobs)

    def is_undriven(self, job_id: JobId) -> bool:
        """It waits for its master, and shall run."""
        job = self._jobs.get(job_id)
        return job is not None and not job.led and not job.cancel_wanted

    def cleaning(self) -> set[JobId]:
        """Ended on record, but something of them is left."""
        return set(self._cleaning)

    def details(self) -> list[JobDetails]:
        return [job.details() for job in self._jobs.values()]

    def count(self) -> int:
        return len(self._jobs)

    def _summary(self, job_id: JobId) -> JobSummary | None:
        job = self._jobs.get(job_id)
        return None if job is None else summary_of(job.details())

    async def next_change(self, job_id: JobId) -> None:
        """Returns when the job may have another status than now."""
        job = self._jobs.get(job_id)
        if job is not None:
            await job.news.wait_for_change(job.news.value)

    def start(self, to_run: JobToRun) -> None:
        job_id = to_run.graph.job_id
        job = LiveJob(
            to_run,
            Latest(None),
            cancel_wanted=to_run.cancel_wanted,
            why_waiting=partial(self._queues.why_waiting, job_id),
            on_cancel=partial(self._queues.cancelled, job_id),
            tell_change=partial(self._changed, job_id),
        )
        self._jobs[job_id] = job
        job.tell_change()
        self._queues.enter(to_run)
        self.scope.spawn(f"job {to_run.graph.job_id}", self._carry(job))

    def _changed(self, job_id: JobId) -> None:
        self.list.changed(job_id)
        if (job := self._jobs.get(job_id)) is not None:
            job.news.set(job.news.value + 1)

    def clean_up_later(self, job_id: JobId) -> None:
        """Known by its dirty result alone: only its clean-up is left (DISP-13)."""
        self.scope.spawn(f"clean up {job_id}", self._clean_up(job_id))

    async def end_unrun(self, end: JobEnd) -> None:
        """Of a job that cannot be run: on record, and cleaned up as any other that ended."""
        result = await self._record(end)
        self._ended.add(result)
        self.changes.set(self.changes.value + 1)
        self.clean_up_later(result.job_id)

    async def _carry(self, job: LiveJob) -> None:
        job_id = job.to_run.graph.job_id
        bind_log_fields(job=job_id)
        await self._queues.wait_for_turn(job_id)
        try:
            await self._run_to_its_end(job)
        except CorruptContent as damage:
            self._remove(job_id)
            self._queues.leave(job_id)
            self.put_aside(job.to_run, str(damage), job.cancel_wanted)
            self.changes.set(self.changes.value + 1)
            return
        self._queues.leave(job_id)
        await self._clean_up(job_id)

    def _remove(self, job_id: JobId) -> None:
        self._changed(job_id)
        del self._jobs[job_id]

    def _is_over(self, job: LiveJob, result: JobResult) -> None:
        """It is on record, so everyone may see it; its master still has to take its leave."""
        job.over = True
        self._ended.add(result)
        self._cleaning.add(result.job_id)
        self._remove(result.job_id)
        self.changes.set(self.changes.value + 1)

    async def _run_to_its_end(self, job: LiveJob) -> None:
        """A job master that breaks is started again: it finds its attempts by their records."""
        loop = asyncio.get_running_loop()
        pauses = _pauses(self._services.options)
        failures = 0
        while True:
            began = loop.time()
            try:
                await self._run(job)
            except (Fenced, SessionExpired, CorruptContent):
                raise
            # The border between one job and all others: whatever breaks its master harms it alone.
            except Exception as error:
                log.error(
                    "the master of job %s broke: %s: %s",
                    job.to_run.graph.job_id,
                    type(error).__name__,
                    error,
                )
            finally:
                job.run_by(None)
            if job.over:
                return
            failures = 0 if loop.time() - began > STEADY_SECONDS else failures
            await asyncio.sleep(pauses.delay(failures).total_seconds())
            failures += 1

    async def _run(self, job: LiveJob) -> None:
        to_run = JobToRun(
            graph=job.to_run.graph,
            submitted_at=job.to_run.submitted_at,
            recovered=job.to_run.recovered,
            cancel_wanted=job.cancel_wanted,
        )
        async with AsyncExitStack() as room:
            if to_run.recovered:
                # So that a new leader with many jobs does not choke on all of them at once.
                await room.enter_async_context(self._recovering)
            with job.being_led():
                async with self._services.start_job(to_run) as running:
                    job.run_by(running)
                    if job.cancel_wanted and not to_run.cancel_wanted:
                        running.cancel()
                    if to_run.recovered:
                        await _until_begun(running)
                        await room.aclose()
                    self._is_over(job, await self._record(await running.ended()))

    async def _record(self, end: JobEnd) -> JobResult:
        """From here on the job has ended, for every leader to come."""
        details = end.details
        result = JobResult(
            job_id=details.job_id,
            name=details.name,
            job_type=details.job_type,
            status=details.status,
            start=details.start,
            end=details.end or self._services.wall_clock(),
            failure=end.failure,
            tasks=summary_of(details).tasks,
        )
        try:
            await self._results.create_dirty(result, details)
        except KeyExists:
            # Decided before, by this leader after an unknown outcome: what stands is what counts.
            record = await self._results.get(result.job_id)
            result = record.result if record else result
        log.info("job %s ended as %s", result.job_id, result.status)
        return result

    async def _clean_up(self, job_id: JobId) -> None:
        bind_log_fields(job=job_id)
        self._cleaning.add(job_id)
        try:
            await self._clean_up_and_mark(job_id)
        finally:
            self._cleaning.discard(job_id)
            self.changes.set(self.changes.value + 1)

    async def _clean_up_and_mark(self, job_id: JobId) -> None:
        if not await clean_up(job_id, self._steps, retries_of(self._services.options)):
            return
        try:
            await self._results.mark_clean(job_id)
        except StokerError as error:
            if isinstance(error, Fenced | SessionExpired):
                raise
            # The dirty record makes a later leader finish it (CLEAN-06).
            log.warning("job %s could not be marked clean: %s", job_id, error)

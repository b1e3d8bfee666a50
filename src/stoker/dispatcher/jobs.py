"""The jobs that have not ended, each with the task that drives it to its recorded end.

Every accepted job has one task here. The task waits for the job's turn in its queue, runs a job
master, restarts the master when it breaks, records the terminal state, and cleans up.

Invariant: a terminal state becomes visible only when it is on record. Until then a leader that
takes over could still decide otherwise, so such a job is shown as still running, failing or
cancelling. The order is: record the result as dirty, show the end, clean up, mark the result
clean. A leader that finds a dirty result finishes the clean-up and never runs the job again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import Any

import msgspec

from stoker.aio.latest import Latest
from stoker.aio.log_context import bind_log_fields
from stoker.aio.retry import Backoff
from stoker.aio.scope import TaskScope
from stoker.core.description import plan_of
from stoker.core.errors import (
    CannotResume,
    CorruptContent,
    Fenced,
    KeyExists,
    SessionExpired,
    StokerError,
)
from stoker.core.graph import JobGraph
from stoker.core.ids import JobId
from stoker.core.results import JobDetails, JobResult, JobSummary, summary_of
from stoker.core.states import JobStatus
from stoker.dispatcher.cleanup import clean_up, retries_of
from stoker.dispatcher.job_events import JobEvents, facts_of_ended, facts_of_live
from stoker.dispatcher.job_index import EndedJobs, LiveJobIndex
from stoker.dispatcher.options import DispatcherOptions
from stoker.dispatcher.output_reservations import OutputReservations
from stoker.dispatcher.quarantine import Quarantine
from stoker.dispatcher.queues import Queues
from stoker.dispatcher.recovery import Recovery
from stoker.dispatcher.services import DispatcherServices
from stoker.dispatcher.stores import Stores, cleanup_steps
from stoker.events.missing import JobFacts
from stoker.gateways.job import JobEnd, JobToRun, RunningJob
from stoker.metrics.catalogue import JOBS_ENDED, QUEUE_WAIT

log = logging.getLogger(__name__)

STEADY_SECONDS = 60.0
"""A job master that broke after running this long is restarted with the shortest pause."""
LONGEST_PAUSE = timedelta(minutes=1)
"""Longest pause between two starts of a job master that keeps breaking."""


class JobStage(Enum):
    UNDRIVEN = "undriven"
    """No job master runs: the job waits for its turn, or for the restart of its master."""
    DRIVEN = "driven"
    """A job master runs. It alone decides about attempts."""
    ENDED = "ended"
    """The end is on record. The job master may still be shutting down."""


@dataclass
class LiveJob:
    to_run: JobToRun
    running: Latest[RunningJob | None]
    cancel_wanted: bool = False
    stage: JobStage = JobStage.UNDRIVEN
    why_waiting: Callable[[], str | None] = lambda: None
    """Why the job waits in its queue; None once it has its turn."""
    on_cancel: Callable[[], None] = lambda: None
    on_change: Callable[[], None] = lambda: None
    changes: Latest[int] = field(default_factory=lambda: Latest(0))
    """Counts every possible change of the job."""

    @property
    def is_driven(self) -> bool:
        """Whether a job master may decide about attempts.

        One that still reads the records, perhaps from a storage that hangs, decides nothing.
        """
        running = self.running.value
        is_reading = running is not None and running.status is JobStatus.INITIALIZING
        return self.stage is not JobStage.UNDRIVEN and not is_reading

    @property
    def status(self) -> JobStatus:
        if self.running.value is not None:
            status = self.running.value.status
            return _UNTIL_RECORDED.get(status, status)
        return JobStatus.CANCELLING if self.cancel_wanted else JobStatus.INITIALIZING

    def details(self) -> JobDetails:
        if self.running.value is not None:
            return _hide_unrecorded_end(self.running.value.details())
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
            owner=self.to_run.owner,
        )

    def set_running(self, running: RunningJob | None) -> None:
        self.running.set(running)
        if running is not None:
            running.set_change_listener(self.on_change)
        self.on_change()

    @contextmanager
    def driven(self) -> Iterator[None]:
        """Covers the whole life of a job master."""
        self.stage = JobStage.DRIVEN
        try:
            yield
        finally:
            if self.stage is JobStage.DRIVEN:
                self.stage = JobStage.UNDRIVEN

    def cancel(self) -> None:
        self.cancel_wanted = True
        self.on_cancel()
        if self.running.value is not None:
            self.running.value.cancel()
        self.on_change()


_UNTIL_RECORDED = {
    JobStatus.FINISHED: JobStatus.RUNNING,
    JobStatus.FAILED: JobStatus.FAILING,
    JobStatus.CANCELED: JobStatus.CANCELLING,
}


def _hide_unrecorded_end(details: JobDetails) -> JobDetails:
    if not details.status.globally_terminal:
        return details
    return msgspec.structs.replace(details, status=_UNTIL_RECORDED[details.status], end=None)


async def _wait_until_started(running: RunningJob) -> None:
    """Returns when the job master has taken over the job, or has ended it already."""
    waits: set[asyncio.Future[Any]] = {
        asyncio.ensure_future(running.wait_for_change(JobStatus.INITIALIZING)),
        asyncio.ensure_future(running.wait_for_end()),
    }
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


def _restart_pauses(options: DispatcherOptions) -> Backoff:
    first = options.master_restart_delay
    return Backoff(initial=first, maximum=max(first, LONGEST_PAUSE))


class LiveJobs:
    """The live jobs of the leading dispatcher, with their queues and the quarantine."""

    def __init__(
        self,
        services: DispatcherServices,
        stores: Stores,
        recovery: Recovery,
        events: JobEvents,
    ) -> None:
        self._services = services
        self.events = events
        self._results = stores.results
        self._cleanup_steps = cleanup_steps(stores, services.blobs)
        self._jobs: dict[JobId, LiveJob] = {}
        self._in_cleanup: set[JobId] = set()
        self._recovery_slots = asyncio.Semaphore(services.options.recovery_concurrency)
        self.scope = TaskScope("jobs")
        self.index = LiveJobIndex(self._summary)
        self.ended = EndedJobs(recovery.ended)
        self.queues = Queues(services.queues, services.wall_clock)
        self.outputs = OutputReservations(self._unfinished_graphs)
        self.quarantine = Quarantine(
            recovery, stores=stores, host=self, events=events, wall_clock=services.wall_clock
        )
        self._queue_waits = services.metrics.histogram(QUEUE_WAIT)
        self._ends = services.metrics.counter(JOBS_ENDED)
        self.changes: Latest[int] = Latest(0)
        """Counts the jobs that ended, were cleaned up, or went to quarantine."""

    def get(self, job_id: JobId) -> LiveJob | None:
        return self._jobs.get(job_id)

    def _unfinished_graphs(self) -> Iterator[JobGraph]:
        """The graphs of the jobs whose end is not on record."""
        for job in self._jobs.values():
            if job.stage is not JobStage.ENDED:
                yield job.to_run.graph

    def count_unfinished(self, owner: str) -> int:
        """The jobs of an owner whose end is not on record, also those in quarantine."""
        live = sum(
            job.to_run.owner == owner and job.stage is not JobStage.ENDED
            for job in self._jobs.values()
        )
        return live + sum(job.owner == owner for job in self.quarantine.all())

    def name_of(self, job_id: JobId) -> str:
        """Empty for a job that is not known any more."""
        if (job := self._jobs.get(job_id)) is not None:
            return job.to_run.graph.name
        result = self.ended.get(job_id)
        return "" if result is None else result.name

    def ids(self) -> set[JobId]:
        return set(self._jobs)

    def is_undriven(self, job_id: JobId) -> bool:
        """Whether no master decides about the job's attempts, and the job is not cancelled."""
        job = self._jobs.get(job_id)
        waits = job is not None and not job.is_driven and not job.cancel_wanted
        return waits or self.quarantine.holds_uncancelled(job_id)

    def in_cleanup(self) -> set[JobId]:
        """Jobs whose end is on record and whose clean-up is under way."""
        return set(self._in_cleanup)

    def count(self) -> int:
        return len(self._jobs)

    def _summary(self, job_id: JobId) -> JobSummary | None:
        job = self._jobs.get(job_id)
        return None if job is None else summary_of(job.details())

    async def next_change(self, job_id: JobId) -> None:
        """Returns when the status of the job may have changed."""
        job = self._jobs.get(job_id)
        if job is not None:
            await job.changes.wait_for_change(job.changes.value)

    def start(self, to_run: JobToRun) -> None:
        job_id = to_run.graph.job_id
        job = LiveJob(
            to_run,
            Latest(None),
            cancel_wanted=to_run.cancel_wanted,
            why_waiting=partial(self.queues.why_waiting, job_id),
            on_cancel=partial(self.queues.admit_cancelled, job_id),
            on_change=partial(self._mark_changed, job_id),
        )
        self._jobs[job_id] = job
        job.on_change()
        self.queues.enter(to_run)
        if not to_run.recovered and not self.queues.is_admitted(job_id):
            self.events.queued(to_run)
        self.scope.spawn(f"job {to_run.graph.job_id}", self._drive(job))

    def start_cleanup(self, job_id: JobId) -> None:
        """Clean up a job that ended, of which this leader knows only the dirty result."""
        self.scope.spawn(f"clean up {job_id}", self._clean_up(job_id))

    async def record_end(self, end: JobEnd) -> None:
        """Record the end of a job that cannot be run, and begin its clean-up."""
        result = await self._record(end)
        self.ended.add(result)
        self.events.ended(result, None)
        self._count_change()
        self.start_cleanup(result.job_id)

    def _mark_changed(self, job_id: JobId) -> None:
        self.index.mark_changed(job_id)
        if (job := self._jobs.get(job_id)) is not None:
            job.changes.set(job.changes.value + 1)
            if job.running.value is not None:
                self.events.changed(job.to_run, job.running.value)

    def facts(self) -> list[JobFacts]:
        """What is known of all jobs, live and ended, for the event log."""
        live = [facts_of_live(job.to_run) for job in self._jobs.values()]
        return [*live, *map(facts_of_ended, self.ended.results())]

    def _count_change(self) -> None:
        self.changes.set(self.changes.value + 1)

    async def _drive(self, job: LiveJob) -> None:
        job_id = job.to_run.graph.job_id
        bind_log_fields(job=job_id)
        entered = asyncio.get_running_loop().time()
        await self.queues.wait_for_turn(job_id)
        if not job.to_run.was_admitted:
            waited = asyncio.get_running_loop().time() - entered
            self._queue_waits.observe(waited, job.to_run.graph.queue)
        try:
            await self._run_until_ended(job)
        except (CorruptContent, CannotResume) as error:
            self._remove(job_id)
            self.queues.leave(job_id)
            self.quarantine.add(job.to_run, str(error), cancel_wanted=job.cancel_wanted)
            self._count_change()
            return
        self.queues.leave(job_id)
        await self._clean_up(job_id)

    def _remove(self, job_id: JobId) -> None:
        self._mark_changed(job_id)
        del self._jobs[job_id]

    async def _run_until_ended(self, job: LiveJob) -> None:
        """Run job masters, one after the other, until one of them has ended the job.

        A new job master finds the attempts of the previous one by their records.
        """
        loop = asyncio.get_running_loop()
        pauses = _restart_pauses(self._services.options)
        failures = 0
        while True:
            began = loop.time()
            try:
                await self._run(job)
            except (Fenced, SessionExpired, CorruptContent, CannotResume):
                raise
            # The border between one job and all others: a broken job master harms only its own job.
            except Exception as error:
                log.error(
                    "the job master broke: %s: %s",
                    type(error).__name__,
                    error,
                    exc_info=not isinstance(error, StokerError),
                )
            finally:
                job.set_running(None)
            if job.stage is JobStage.ENDED:
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
            owner=job.to_run.owner,
        )
        async with AsyncExitStack() as recovery_slot:
            if to_run.recovered:
                # A new leader with many jobs must not start all of them at the same moment.
                await recovery_slot.enter_async_context(self._recovery_slots)
            with job.driven():
                async with self._services.start_job(to_run) as running:
                    job.set_running(running)
                    if job.cancel_wanted and not to_run.cancel_wanted:
                        running.cancel()
                    if to_run.recovered:
                        await _wait_until_started(running)
                        await recovery_slot.aclose()
                    self._show_end(job, await self._record(await running.wait_for_end()))

    def _show_end(self, job: LiveJob, result: JobResult) -> None:
        """The end is on record and may become visible; the job master still has to close."""
        job.stage = JobStage.ENDED
        self.ended.add(result)
        self.events.ended(result, job.to_run)
        self._in_cleanup.add(result.job_id)
        self._remove(result.job_id)
        self._count_change()

    async def _record(self, end: JobEnd) -> JobResult:
        """When this returns, the job has ended for every future leader."""
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
            owner=details.owner,
            restarts=summary_of(details).restarts,
        )
        try:
            await self._results.create_dirty(result, details)
        except KeyExists:
            # This leader wrote it before, with an unknown outcome. The record counts.
            record = await self._results.get(result.job_id)
            result = record.result if record else result
        log.info("job %s ended as %s", result.job_id, result.status)
        self._ends.increment(result.status.value)
        return result

    async def _clean_up(self, job_id: JobId) -> None:
        bind_log_fields(job=job_id)
        self._in_cleanup.add(job_id)
        try:
            await self._clean_up_and_mark(job_id)
        finally:
            self._in_cleanup.discard(job_id)
            self._count_change()

    async def _clean_up_and_mark(self, job_id: JobId) -> None:
        if not await clean_up(job_id, self._cleanup_steps, retries_of(self._services.options)):
            return
        try:
            await self._results.mark_clean(job_id)
        except (Fenced, SessionExpired):
            raise
        except StokerError as error:
            # The result stays dirty, so a later leader finishes the clean-up.
            log.warning("the result could not be marked clean: %s", error)

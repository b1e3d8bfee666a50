"""The shutdown of the whole cluster, carried out by the leading dispatcher.

The request is durable before it is acknowledged, so if the leader dies, the next one completes the
shutdown. From the request on, nothing new is accepted. The shutdown is recorded as complete last;
every other process follows that record and ends.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, assert_never

from stoker.aio.clock import WallClock
from stoker.aio.latest import Latest
from stoker.core.errors import (
    ClusterIsEnding,
    Fenced,
    JobAlreadyEnded,
    JobNotFound,
    NotFound,
    SessionExpired,
    StokerError,
)
from stoker.core.ids import JobId
from stoker.core.states import ApplicationStatus
from stoker.core.values import Millis
from stoker.dispatcher.jobs import LiveJobs
from stoker.dispatcher.options import DispatcherOptions
from stoker.dispatcher.savepoints import SavepointTriggers
from stoker.dispatcher.services import DispatcherServices
from stoker.dispatcher.shutdown.plan import (
    CancelJobs,
    RecordedShutdown,
    RemainingWork,
    ShutdownComplete,
    ShutdownPlan,
    WaitUntil,
    decide_recorded_shutdown,
)
from stoker.dispatcher.stores import Stores
from stoker.ha.stores.shutdowns import ShutdownRecord, ShutdownStore

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5
POLL_SECONDS = 1.0
"""Longest wait for a change, because replacements and quarantine announce none."""
LAST_ANSWERS_SECONDS = 1.0
"""Time for which clients can still query the results of their jobs."""

CancelJob = Callable[[JobId], Awaitable[None]]


class ClusterShutdown:
    def __init__(
        self,
        store: ShutdownStore,
        *,
        jobs: LiveJobs,
        triggers: SavepointTriggers,
        pending_replacements: Callable[[], set[JobId]],
        options: DispatcherOptions,
        wall_clock: WallClock,
        unfinished: ShutdownRecord | None = None,
    ) -> None:
        """`unfinished` is a shutdown that an earlier leader left to complete.

        `pending_replacements` returns the ids of jobs that replacements may still submit.
        """
        self._store = store
        self._jobs = jobs
        self._triggers = triggers
        self._pending_replacements = pending_replacements
        self._options = options
        self._wall_clock = wall_clock
        self._record: Latest[ShutdownRecord | None] = Latest(unfinished)
        self._submissions = Latest(0)
        self._request_lock = asyncio.Lock()

    async def request(self, status: ApplicationStatus) -> None:
        async with self._request_lock:
            if self._record.value is None:
                self._record.set(await self._store.ask(status, at=self._wall_clock()))
                log.warning("shutting down the cluster: all jobs are cancelled")

    def check(self) -> None:
        """Raise ClusterIsEnding when nothing new may begin."""
        if self._record.value is not None:
            raise ClusterIsEnding(
                "the cluster is being shut down and accepts nothing new; start it again when it "
                "has ended, or use another one"
            )

    @contextmanager
    def counting_submission(self) -> Iterator[None]:
        """Keeps the cluster from ending between the acceptance of a job and its start."""
        self._submissions.set(self._submissions.value + 1)
        try:
            yield
        finally:
            self._submissions.set(self._submissions.value - 1)

    async def run(self, cancel: CancelJob) -> None:
        """Returns when all work has ended on record, or its time is over."""
        record = await self._record.wait_until(lambda found: found is not None)
        assert record is not None
        await self._end_everything(cancel)
        await asyncio.sleep(LAST_ANSWERS_SECONDS)
        await self._store.complete(record)
        log.warning("the cluster has been shut down as %s", record.status)

    async def _end_everything(self, cancel: CancelJob) -> None:
        loop = asyncio.get_running_loop()
        plan = ShutdownPlan(loop.time(), self._options.shutdown_timeout.total_seconds())
        while True:
            changes = self._jobs.changes.value
            match plan.next_step(self._remaining(), loop.time()):
                case CancelJobs(jobs=jobs):
                    await self._cancel(jobs, cancel)
                case WaitUntil(deadline=deadline):
                    await self._wait_for_change(changes, deadline - loop.time())
                case ShutdownComplete(unfinished=unfinished):
                    for job_id in sorted(unfinished):
                        log.error(
                            "job %s has not ended in time; its cancellation is on record", job_id
                        )
                    return
                case step:
                    assert_never(step)

    def _remaining(self) -> RemainingWork:
        jobs = {job_id: self._jobs.get(job_id) for job_id in self._jobs.ids()}
        ending = frozenset(job_id for job_id, job in jobs.items() if job and job.cancel_wanted)
        stopping = (self._triggers.stopped_jobs() & jobs.keys()) - ending
        quarantined = {job.job_id for job in self._jobs.quarantine.all() if not job.cancel_wanted}
        return RemainingWork(
            savepoints=len(self._triggers.running_tasks()),
            submissions=self._submissions.value,
            replacements=len(self._pending_replacements()),
            running=frozenset((jobs.keys() - ending - stopping) | quarantined),
            stopping=frozenset(stopping),
            ending=ending,
            in_cleanup=frozenset(self._jobs.in_cleanup()),
        )

    async def _cancel(self, jobs: frozenset[JobId], cancel: CancelJob) -> None:
        refused = False
        for job_id in sorted(jobs):
            try:
                await cancel(job_id)
            except (Fenced, SessionExpired):
                raise
            except (JobAlreadyEnded, NotFound):
                log.info("job %s ended before it could be cancelled", job_id)
                refused = True
            except StokerError as error:
                log.warning("job %s is not cancelled yet: %s", job_id, error)
                refused = True
        if refused:
            await asyncio.sleep(RETRY_SECONDS)

    async def _wait_for_change(self, changes: int, seconds: float) -> None:
        submissions = self._submissions.value
        waits: set[asyncio.Task[Any]] = {
            asyncio.ensure_future(self._jobs.changes.wait_for_change(changes)),
            asyncio.ensure_future(self._submissions.wait_for_change(submissions)),
        }
        try:
            await asyncio.wait(
                waits | self._triggers.running_tasks(),
                timeout=max(0.0, min(seconds, POLL_SECONDS)),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)


async def shutdown_to_complete(
    store: ShutdownStore, services: DispatcherServices
) -> ShutdownRecord | None:
    """The shutdown that an earlier leader left to complete; None when this leader may serve.

    Does not return in a process whose cluster has ended: the process is about to end and must not
    start anything.
    """
    record = await store.get()
    follower = services.shutdowns
    decision = decide_recorded_shutdown(
        record,
        concerns_us=record is not None and follower is not None and await follower.concerns(record),
        now=services.wall_clock(),
        timeout_millis=int(services.options.shutdown_timeout.total_seconds() * 1000),
    )
    match decision:
        case RecordedShutdown.SERVE:
            return None
        case RecordedShutdown.COMPLETE:
            log.warning("continuing the shutdown of the cluster that an earlier leader began")
            return record
        case RecordedShutdown.FORGET:
            log.error("forgetting an old shutdown of the cluster that no leader completed")
            await store.forget()
            return None
        case RecordedShutdown.END:
            log.info("the cluster was shut down, and this process ends with it")
            await asyncio.get_running_loop().create_future()
            return None
        case _:
            assert_never(decision)


async def complete_without_recovery(stores: Stores, record: ShutdownRecord, now: Millis) -> None:
    """End a cluster whose jobs cannot be read. Every job is cancelled for its next reader."""
    for job_id in await stores.graphs.records():
        log.error("job %s cannot be read; its cancellation is on record", job_id)
        with contextlib.suppress(JobNotFound):
            await stores.cancellations.cancel(job_id, at=now)
    await stores.shutdowns.complete(record)

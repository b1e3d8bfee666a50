"""The end of the whole cluster, carried out by the leading dispatcher (DISP-16, DISP-17)."""

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
from stoker.dispatcher.quarantine import Quarantine
from stoker.dispatcher.savepoints import SavepointTriggers
from stoker.dispatcher.services import DispatcherServices
from stoker.dispatcher.shutdown.plan import (
    Cancel,
    Ending,
    Over,
    Remaining,
    Standing,
    Wait,
    standing_of,
)
from stoker.dispatcher.stores import Stores
from stoker.ha.stores.shutdowns import ShutdownRecord, ShutdownStore

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5
LOOK_SECONDS = 1.0
"""For what tells nobody that it has changed."""
LAST_ANSWERS_SECONDS = 1.0
"""So long clients can still ask how their jobs ended."""

CancelJob = Callable[[JobId], Awaitable[None]]


class ClusterShutdown:
    def __init__(
        self,
        store: ShutdownStore,
        *,
        live: LiveJobs,
        quarantine: Quarantine,
        triggers: SavepointTriggers,
        replaced: Callable[[], set[JobId]],
        options: DispatcherOptions,
        wall_clock: WallClock,
        begun: ShutdownRecord | None = None,
    ) -> None:
        """`begun` is one that an earlier leader left to complete.

        `replaced` names the jobs that replacements are about to hand in.
        """
        self._store = store
        self._live = live
        self._quarantine = quarantine
        self._triggers = triggers
        self._replaced = replaced
        self._options = options
        self._wall_clock = wall_clock
        self._record: Latest[ShutdownRecord | None] = Latest(begun)
        self._submissions = Latest(0)
        self._asking = asyncio.Lock()

    async def ask(self, status: ApplicationStatus) -> None:
        async with self._asking:
            if self._record.value is None:
                self._record.set(await self._store.ask(status, at=self._wall_clock()))
                log.warning("the cluster is shut down: all its jobs are cancelled")

    def check(self) -> None:
        """ClusterIsEnding when nothing new may begin."""
        if self._record.value is not None:
            raise ClusterIsEnding(
                "the cluster is being shut down and takes nothing new; start it again when it has "
                "ended, or use another one"
            )

    @contextmanager
    def counting_submission(self) -> Iterator[None]:
        """The cluster does not end between the admission of a job and its start."""
        self._submissions.set(self._submissions.value + 1)
        try:
            yield
        finally:
            self._submissions.set(self._submissions.value - 1)

    async def run(self, cancel: CancelJob) -> None:
        """Returns when all that was there has ended on record, or had its time."""
        record = await self._record.wait_until(lambda found: found is not None)
        assert record is not None
        await self._end_everything(cancel)
        await asyncio.sleep(LAST_ANSWERS_SECONDS)
        await self._store.complete(record)
        log.warning("the cluster has been shut down as %s", record.status)

    async def _end_everything(self, cancel: CancelJob) -> None:
        loop = asyncio.get_running_loop()
        ending = Ending(loop.time(), self._options.shutdown_timeout.total_seconds())
        while True:
            changes = self._live.changes.value
            match ending.next_step(self._remaining(), loop.time()):
                case Cancel(jobs=jobs):
                    await self._cancel(jobs, cancel)
                case Wait(until=until):
                    await self._wait_for_change(changes, until - loop.time())
                case Over(left=left):
                    for job_id in sorted(left):
                        log.error("job %s has not ended in time; its cancel is on record", job_id)
                    return
                case step:
                    assert_never(step)

    def _remaining(self) -> Remaining:
        jobs = {job_id: self._live.get(job_id) for job_id in self._live.ids()}
        ending = frozenset(job_id for job_id, job in jobs.items() if job and job.cancel_wanted)
        stopping = (self._triggers.stopped() & jobs.keys()) - ending
        aside = {job.job_id for job in self._quarantine.all() if not job.cancel_wanted}
        return Remaining(
            savepoints=len(self._triggers.under_way()),
            submissions=self._submissions.value,
            replacements=len(self._replaced()),
            running=frozenset((jobs.keys() - ending - stopping) | aside),
            stopping=frozenset(stopping),
            ending=ending,
            cleaning=frozenset(self._live.cleaning()),
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
        news: set[asyncio.Task[Any]] = {
            asyncio.ensure_future(self._live.changes.wait_for_change(changes)),
            asyncio.ensure_future(self._submissions.wait_for_change(submissions)),
        }
        try:
            await asyncio.wait(
                news | self._triggers.under_way(),
                timeout=max(0.0, min(seconds, LOOK_SECONDS)),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for each in news:
                each.cancel()
            await asyncio.gather(*news, return_exceptions=True)


async def shutdown_to_complete(
    store: ShutdownStore, services: DispatcherServices
) -> ShutdownRecord | None:
    """What an earlier leader left, for this one to complete; none when it may serve.

    Does not return in a process whose cluster has ended: it ends soon, and must bring back nothing.
    """
    record = await store.get()
    follower = services.shutdowns
    standing = standing_of(
        record,
        concerns_us=record is not None and follower is not None and await follower.concerns(record),
        now=services.wall_clock(),
        patience_millis=int(services.options.shutdown_timeout.total_seconds() * 1000),
    )
    match standing:
        case Standing.SERVE:
            return None
        case Standing.COMPLETE:
            log.warning("the shutdown of the cluster that an earlier leader began goes on")
            return record
        case Standing.FORGET:
            log.error("a shutdown of the cluster that nobody completed is forgotten")
            await store.forget()
            return None
        case Standing.END:
            log.info("the cluster has ended, and this process ends with it")
            await asyncio.get_running_loop().create_future()
            return None
        case _:
            assert_never(standing)


async def end_unread(stores: Stores, record: ShutdownRecord, now: Millis) -> None:
    """Of a cluster whose jobs cannot be read: whoever reads them later ends them."""
    for job_id in await stores.graphs.records():
        log.error("job %s cannot be read; its cancel is on record", job_id)
        with contextlib.suppress(JobNotFound):
            await stores.cancellations.cancel(job_id, at=now)
    await stores.shutdowns.complete(record)

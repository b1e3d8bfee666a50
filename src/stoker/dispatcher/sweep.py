"""Removes what belongs to nobody from the storage, now and then (STORE-10, CLEAN-*)."""

import asyncio
import logging
from collections.abc import Callable, Set
from itertools import groupby

from stoker.aio.clock import WallClock
from stoker.core.errors import CorruptContent, StokerError
from stoker.core.ids import JobId
from stoker.dispatcher.job_locks import JobLocks
from stoker.dispatcher.options import DispatcherOptions
from stoker.dispatcher.orphans import FOLDERS, KnownJobs, Pointer, job_of, orphans
from stoker.dispatcher.stores import Stores
from stoker.ha.stores.job_graphs import JobRecord
from stoker.ha.stores.job_results import ResultRecord
from stoker.storage.contract import Storage

log = logging.getLogger(__name__)


class OrphanSweep:
    """Of the leading dispatcher, which is the only one that accepts jobs."""

    def __init__(
        self,
        storage: Storage,
        stores: Stores,
        options: DispatcherOptions,
        *,
        live: Callable[[], Set[JobId]],
        is_quarantined: Callable[[JobId], bool],
        locks: JobLocks,
        wall_clock: WallClock,
    ) -> None:
        self._storage = storage
        self._stores = stores
        self._options = options
        self._live = live
        self._is_quarantined = is_quarantined
        self._locks = locks
        self._wall_clock = wall_clock

    async def run(self) -> None:
        """First after one interval: a leader that has just come has better things to do."""
        while True:
            await asyncio.sleep(self._options.orphans_sweep_interval.total_seconds())
            try:
                removed = await self.sweep()
            except StokerError as error:
                # Whatever could not be read might have been what points to a file.
                log.warning("the storage is not swept this time: %s", error)
                continue
            if removed:
                log.info("%d files that belonged to nobody were removed", removed)

    async def sweep(self) -> int:
        """How many files were removed."""
        # Files before records: what is recorded in between is then seen to be pointed to.
        files: dict[str, float] = {}
        for folder in FOLDERS:
            files |= await self._storage.modified(folder)
        known = await self._known_jobs()
        now = self._wall_clock() / 1000
        doomed = orphans(files, known, now=now, max_age=self._options.orphans_max_age)
        removed = 0
        for job_id, paths in groupby(sorted(doomed, key=job_of), key=job_of):
            async with self._locks(job_id):
                if await self._is_as(known, job_id):
                    removed += await self._remove(job_id, {path: files[path] for path in paths})
        return removed

    async def _remove(self, job_id: JobId, doomed: dict[str, float]) -> int:
        """Only what was not written again since: its submission may be on its way."""
        now: dict[str, float] = {}
        for folder in FOLDERS:
            now |= await self._storage.modified(f"{folder}/{job_id}")
        unchanged = [path for path, at in doomed.items() if now.get(path) == at]
        # A storage knows no leaders: so what was decided here is done while none can follow.
        await self._stores.leadership.commit([])
        for path in unchanged:
            self._stores.leadership.grant.require_certainty()
            log.info("removing %s, which belongs to nobody", path)
            await self._storage.delete(path)
        return len(unchanged)

    async def _known_jobs(self) -> KnownJobs:
        jobs = {
            job_id: self._graph_pointer(job_id, record)
            for job_id, record in (await self._stores.graphs.records()).items()
        }
        results: dict[JobId, Pointer] = {}
        dirty: set[JobId] = set()
        for record in await self._stores.results.all():
            if isinstance(record, ResultRecord):
                results[record.result.job_id] = record.pointer
                dirty |= {record.result.job_id} if record.dirty else set()
            else:
                results[record.job_id] = None
        return KnownJobs(jobs=jobs, results=results, in_use=dirty | self._live())

    def _graph_pointer(self, job_id: JobId, record: JobRecord | None) -> Pointer:
        """All that there is of a job in quarantine is kept: somebody may want to repair it."""
        return None if record is None or self._is_quarantined(job_id) else record.pointer

    async def _is_as(self, known: KnownJobs, job_id: JobId) -> bool:
        """Whether the job's records still say what the decision was made from."""
        try:
            record = await self._stores.graphs.record(job_id)
            result = await self._stores.results.get(job_id)
        except CorruptContent:
            return False
        graph = {job_id: self._graph_pointer(job_id, record)} if record else {}
        details = {job_id: result.pointer} if result else {}
        return graph.items() <= known.jobs.items() and details.items() <= known.results.items()

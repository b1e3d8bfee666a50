"""Removal of files in the storage that belong to no job.

A submission or a leader that dies between its two writes leaves content that no record points to.
Content is always written just before its record, so content that is old and has no record will
never get one. Only the leading dispatcher sweeps, because only it accepts jobs.

The order matters: files are listed before records are read, so that whatever is recorded in
between is seen to be pointed to. The storage knows no leaders and refuses no stale one; so each
removal is checked against the records once more, and done only while this leader is certain to
lead.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Final

from stoker.aio.clock import WallClock
from stoker.core.errors import CorruptContent, StokerError
from stoker.core.ids import JobId, is_hex_id
from stoker.dispatcher.options import DispatcherOptions
from stoker.dispatcher.stores import Stores
from stoker.ha.stores.job_graphs import JobRecord
from stoker.ha.stores.job_results import ResultRecord
from stoker.storage.contract import Storage

log = logging.getLogger(__name__)

FOLDERS: Final = ("jobs", "results", "blobs", "logs", "rows")
"""Each has one sub-folder per job. The sweep touches nothing else in the storage."""

Pointer = str | None
"""Path of the one content that a record points to; None to keep everything of the job."""


@dataclass(frozen=True, kw_only=True)
class KnownJobs:
    """All jobs on record at the coordinator; a job that is missing here does not exist."""

    jobs: Mapping[JobId, Pointer]
    """Jobs that were accepted and not cleaned up, with their graphs."""
    results: Mapping[JobId, Pointer]
    """Ended jobs, with their details."""
    in_use: Set[JobId] = frozenset()
    """Jobs that are live, or ended and still being cleaned up."""


def find_orphans(
    files: Mapping[str, float], known: KnownJobs, *, now: float, max_age: timedelta
) -> list[str]:
    """Pure. Paths older than `max_age` that no record points to. Times are seconds since 1970.

    Checkpoints of an ended job are removed at any age, because nothing reads them again.

    Without any job on record there are no orphans: such a cluster may have been pointed to another
    coordinator by mistake.
    """
    if not known.jobs and not known.results:
        return []
    oldest = now - max_age.total_seconds()
    return sorted(
        path
        for path, at in files.items()
        if (at < oldest or is_checkpoint_of_ended_job(path, known)) and not is_wanted(path, known)
    )


def is_checkpoint_of_ended_job(path: str, known: KnownJobs) -> bool:
    """Spark may write such files for up to a minute after the end, when it maintains state."""
    folder, job_id, inside = _parts(path)
    return folder == "jobs" and inside.startswith("checkpoints/") and job_id in known.results


def is_wanted(path: str, known: KnownJobs) -> bool:
    folder, job_id, inside = _parts(path)
    if not inside or not is_hex_id(job_id):
        return True
    match folder:
        case "results":
            return _is_pointed_to(known.results, job_id, path)
        case "jobs" if inside.startswith("graph/") and job_id in known.jobs:
            return _is_pointed_to(known.jobs, job_id, path)
        case "logs" | "rows":
            return job_id in known.jobs or job_id in known.results or job_id in known.in_use
        case "jobs" | "blobs":
            return job_id in known.jobs or job_id in known.in_use
        case _:
            return True


def job_of(path: str) -> JobId:
    return _parts(path)[1]


def _parts(path: str) -> tuple[str, JobId, str]:
    folder, _, rest = path.partition("/")
    job_id, _, inside = rest.partition("/")
    return folder, JobId(job_id), inside


def _is_pointed_to(records: Mapping[JobId, Pointer], job_id: JobId, path: str) -> bool:
    return job_id in records and records[job_id] in (None, path)


class OrphanSweep:
    def __init__(
        self,
        storage: Storage,
        stores: Stores,
        options: DispatcherOptions,
        *,
        live: Callable[[], Set[JobId]],
        is_quarantined: Callable[[JobId], bool],
        wall_clock: WallClock,
    ) -> None:
        self._storage = storage
        self._stores = stores
        self._options = options
        self._live = live
        self._is_quarantined = is_quarantined
        self._wall_clock = wall_clock

    async def run(self) -> None:
        """Sweep after every interval. A new leader has more urgent work than a first sweep."""
        while True:
            await asyncio.sleep(self._options.orphans_sweep_interval.total_seconds())
            try:
                removed = await self.sweep()
            except StokerError as error:
                # The record that could not be read may be the one that points to a file.
                log.warning("this sweep of the storage is skipped: %s", error)
                continue
            if removed:
                log.info("removed %d orphaned files from the storage", removed)

    async def sweep(self) -> int:
        """Sweep once; returns the number of files that were removed."""
        # Files are listed before records; the top of this module says why.
        files: dict[str, float] = {}
        for folder in FOLDERS:
            files |= await self._storage.modified(folder)
        known = await self._known_jobs()
        now = self._wall_clock() / 1000
        orphans = find_orphans(files, known, now=now, max_age=self._options.orphans_max_age)
        removed = 0
        for job_id, paths in groupby(sorted(orphans, key=job_of), key=job_of):
            async with self._stores.locks(job_id):
                if await self._is_unchanged(known, job_id):
                    removed += await self._remove(job_id, {path: files[path] for path in paths})
        return removed

    async def _remove(self, job_id: JobId, orphans: dict[str, float]) -> int:
        """Spare files that were written again meanwhile: their submission may be under way."""
        times: dict[str, float] = {}
        for folder in FOLDERS:
            times |= await self._storage.modified(f"{folder}/{job_id}")
        unchanged = [path for path, at in orphans.items() if times.get(path) == at]
        # Proves that no later leader has begun; the storage could not refuse a stale removal.
        await self._stores.leadership.commit([])
        for path in unchanged:
            self._stores.leadership.grant.require_certainty()
            log.info("removing orphaned file %s", path)
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
        """Everything of a job in quarantine is kept, because an operator may repair it."""
        return None if record is None or self._is_quarantined(job_id) else record.pointer

    async def _is_unchanged(self, known: KnownJobs, job_id: JobId) -> bool:
        """Whether the records of the job are still those from which the sweep decided."""
        try:
            record = await self._stores.graphs.record(job_id)
            result = await self._stores.results.get(job_id)
        except CorruptContent:
            return False
        graph = {job_id: self._graph_pointer(job_id, record)} if record else {}
        details = {job_id: result.pointer} if result else {}
        return graph.items() <= known.jobs.items() and details.items() <= known.results.items()

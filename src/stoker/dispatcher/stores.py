"""The stores of one leadership, and the steps that remove the records and files of ended jobs."""

import asyncio
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from stoker.blob.server import BlobServer
from stoker.core.ids import Ids, JobId
from stoker.dispatcher.cleanup import CleanupStep
from stoker.ha.leadership import Leadership
from stoker.ha.stores.attempts import AttemptStore
from stoker.ha.stores.cancellations import CancellationStore
from stoker.ha.stores.job_graphs import JobGraphStore
from stoker.ha.stores.job_results import JobResultStore
from stoker.ha.stores.replacements import ReplacementStore
from stoker.ha.stores.shutdowns import ShutdownStore
from stoker.storage.contract import Storage


class JobLocks:
    """One lock for each job; it exists while a caller holds or awaits it.

    Submission, quarantine, replacement and sweep each read the records of a job and then act on
    them. The lock keeps the others from acting on the same job in between.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[JobId, asyncio.Lock] = WeakValueDictionary()

    def __call__(self, job_id: JobId) -> asyncio.Lock:
        return self._locks.setdefault(job_id, asyncio.Lock())


@dataclass(frozen=True, kw_only=True)
class Stores:
    leadership: Leadership
    """Fences every write of these stores."""
    graphs: JobGraphStore
    results: JobResultStore
    cancellations: CancellationStore
    attempts: AttemptStore
    replacements: ReplacementStore
    shutdowns: ShutdownStore
    locks: JobLocks = field(default_factory=JobLocks)


def open_stores(leadership: Leadership, storage: Storage, ids: Ids) -> Stores:
    return Stores(
        leadership=leadership,
        graphs=JobGraphStore(leadership, storage, ids),
        results=JobResultStore(leadership, storage, ids),
        cancellations=CancellationStore(leadership, ids),
        attempts=AttemptStore(leadership),
        replacements=ReplacementStore(leadership, storage),
        shutdowns=ShutdownStore(leadership, ids),
    )


def cleanup_steps(stores: Stores, blobs: BlobServer) -> tuple[CleanupStep, ...]:
    return (
        CleanupStep("records and files of the job", stores.graphs.remove),
        CleanupStep("artifacts", blobs.delete_job),
    )

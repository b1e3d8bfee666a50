"""The durable records of one leadership, and the steps that remove what an ended job left."""

from dataclasses import dataclass

from stoker.blob.server import BlobServer
from stoker.core.ids import Ids
from stoker.dispatcher.cleanup import CleanupStep
from stoker.ha.leadership import Leadership
from stoker.ha.stores.attempts import AttemptStore
from stoker.ha.stores.cancellations import CancellationStore
from stoker.ha.stores.job_graphs import JobGraphStore
from stoker.ha.stores.job_results import JobResultStore
from stoker.ha.stores.replacements import ReplacementStore
from stoker.ha.stores.shutdowns import ShutdownStore
from stoker.storage.contract import Storage


@dataclass(frozen=True, kw_only=True)
class Stores:
    leadership: Leadership
    """Whose writes they are."""
    graphs: JobGraphStore
    results: JobResultStore
    cancellations: CancellationStore
    attempts: AttemptStore
    replacements: ReplacementStore
    shutdowns: ShutdownStore


def stores_of(leadership: Leadership, storage: Storage, ids: Ids) -> Stores:
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

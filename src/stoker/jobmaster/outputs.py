"""Failures that do not count against the restart strategy of a job.

If the output of a region was decided before its attempt died, part of the output may be at its
target already. Failing the job would leave it there for ever, so the next attempt has to finish the
publication; it computes nothing. An attempt that died because of a task of another job is retried
as well.
"""

import logging
from datetime import timedelta

from stoker.aio.retry import Backoff, retry
from stoker.core.errors import CorruptContent, StorageUnavailable
from stoker.core.graph import FormatWrite, JobGraph, Sink
from stoker.core.ids import RegionId
from stoker.core.results import COLLATERAL, Failure
from stoker.ha.stores.storage_records import PublicationStore
from stoker.storage.contract import Storage

log = logging.getLogger(__name__)

BACKOFF = Backoff(initial=timedelta(seconds=0.5), maximum=timedelta(seconds=10))

_DEATHS = frozenset({"RunnerDied", "SparkServerDied", "TaskExecutorLost", "AttemptLost"})
"""Failures caused by the end of a process. A failure that an attempt reports itself would recur."""


def may_be_excused(graph: JobGraph, region: RegionId, failure: Failure | None) -> bool:
    if failure is None:
        return False
    if _is_collateral(failure):
        return True
    end = graph.vertex(region)
    died = failure.error in _DEATHS
    return died and isinstance(end, Sink) and isinstance(end.write, FormatWrite)


def _is_collateral(failure: Failure) -> bool:
    return failure.labels.get("cause") == COLLATERAL


class DecidedOutputs:
    def __init__(self, storage: Storage, graph: JobGraph) -> None:
        self._graph = graph
        self._store = PublicationStore.of_job(storage, graph.job_id)

    async def was_interrupted(self, region: RegionId, failure: Failure | None) -> bool:
        """Whether an attempt that died with this failure may be retried without counting it."""
        if failure is None or not may_be_excused(self._graph, region, failure):
            return False
        if _is_collateral(failure):
            return True
        try:
            decided = await retry(
                lambda: self._store.read(region), on=StorageUnavailable, backoff=BACKOFF
            )
        except CorruptContent as error:
            log.error("%s", error)
            return False
        return decided is not None

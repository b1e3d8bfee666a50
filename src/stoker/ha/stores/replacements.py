"""Replacements of jobs by other versions: the plan and the phase that each has reached.

A replacement may outlive the leader that began it. Each phase is recorded before anything is done
for it, so that the next leader can continue from the phase on record.
"""

import logging

from stoker.core.errors import CorruptContent, NoSuchKey, NotFound, StorageUnavailable
from stoker.core.failpoints import failpoint
from stoker.core.graph import JobGraph
from stoker.core.ids import JobId
from stoker.core.replacements import Replacement
from stoker.core.values import decode_value
from stoker.ha import keys
from stoker.ha.coordinator import Create, Delete, Put
from stoker.ha.leadership import Leadership
from stoker.ha.record import StoredRecord, decode_record, encode
from stoker.ha.stores.fenced import commit_or_read_back
from stoker.storage.contract import Storage

log = logging.getLogger(__name__)


class ReplacementRecord(StoredRecord, frozen=True, kw_only=True):
    """Value of `replacements/<job>/<trigger>`."""

    plan: Replacement


def graph_path(job_id: JobId, trigger_id: str) -> str:
    return f"{keys.replacement(job_id, trigger_id)}/graph.json"


class ReplacementStore:
    """Writes under one leadership: the coordinator refuses those of an earlier leader."""

    def __init__(self, leadership: Leadership, storage: Storage) -> None:
        self._leadership = leadership
        self._coordinator = leadership.coordinator
        self._storage = storage

    async def create(self, plan: Replacement, graph: JobGraph | None) -> None:
        """Write the new version's graph, then the record; KeyExists if there is a record."""
        if graph is not None and plan.pointer is not None:
            failpoint("replacements.before-content")
            await self._storage.write(plan.pointer, encode(graph))
        key, value = keys.replacement(plan.job_id, plan.trigger_id), _encoded(plan)
        failpoint("replacements.before-record")
        await commit_or_read_back(
            self._leadership, [Create(key, value)], key=key, is_ours=lambda found: found == value
        )
        failpoint("replacements.after-record")

    async def put(self, plan: Replacement) -> None:
        """Record the next phase. Act on it only after this has returned."""
        key, value = keys.replacement(plan.job_id, plan.trigger_id), _encoded(plan)
        found = await self._coordinator.read(key)
        if found is None:
            raise NoSuchKey(key)
        failpoint("replacements.before-phase")
        await commit_or_read_back(
            self._leadership,
            [Put(key, value, found.version)],
            key=key,
            is_ours=lambda there: there == value,
        )
        failpoint("replacements.after-phase")

    async def all(self) -> list[Replacement]:
        """All replacements; one that cannot be read is skipped and harms no other."""
        plans: list[Replacement] = []
        for job in await self._coordinator.children(keys.REPLACEMENTS):
            for trigger in await self._coordinator.children(f"{keys.REPLACEMENTS}/{job}"):
                key = keys.replacement(JobId(job), trigger)
                found = await self._coordinator.read(key)
                if found is None:
                    continue
                try:
                    plans.append(decode_record(found.value, ReplacementRecord, key).plan)
                except CorruptContent as error:
                    log.error("a replacement cannot be continued: %s", error)
        return plans

    async def graph(self, plan: Replacement) -> JobGraph:
        """The new version's graph; CorruptContent when it is missing or damaged."""
        path = plan.pointer or graph_path(plan.job_id, plan.trigger_id)
        try:
            content = await self._storage.read(path)
        except NotFound:
            raise CorruptContent(f"{path}, the graph of the new version, is gone") from None
        return decode_value(content, JobGraph, path)

    async def remove(self, plan: Replacement) -> None:
        """Remove the record, then the content. Idempotent."""
        failpoint("replacements.before-removing-record")
        try:
            await self._leadership.commit([Delete(keys.replacement(plan.job_id, plan.trigger_id))])
        except NoSuchKey:
            log.info("the record of replacement %s was removed before", plan.trigger_id)
        failpoint("replacements.before-removing-content")
        try:
            await self._storage.delete_tree(keys.replacement(plan.job_id, plan.trigger_id))
        except StorageUnavailable as error:
            log.warning("the graph of replacement %s was not deleted: %s", plan.trigger_id, error)


def _encoded(plan: Replacement) -> bytes:
    return encode(ReplacementRecord(plan=plan))

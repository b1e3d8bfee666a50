"""The job graph store: every accepted job, from its submission until its clean-up.

A job counts as accepted from the moment that its record exists at the coordinator. The graph is
written to the storage before, under a name that is used once, so a record never points to missing
or partial content; content that no record points to is deleted by the sweep.
"""

import functools
import hashlib
import logging
from dataclasses import dataclass
from typing import Any

import msgspec

from stoker.core.errors import (
    ConnectionLost,
    CorruptContent,
    KeyExists,
    NoSuchKey,
    NotFound,
    StokerError,
    StorageUnavailable,
    VersionMismatch,
)
from stoker.core.failpoints import failpoint
from stoker.core.graph import JobGraph, Restore
from stoker.core.ids import Ids, JobId, is_hex_id
from stoker.core.values import Millis, decode_value
from stoker.ha import keys
from stoker.ha.coordinator import Create, Delete, Op
from stoker.ha.leadership import Leadership
from stoker.ha.record import StoredRecord, decode_record, encode
from stoker.ha.stores.fenced import commit_or_read_back
from stoker.ha.stores.job_results import ResultRecord, UnreadableJob
from stoker.storage.contract import Storage

log = logging.getLogger(__name__)


class JobRecord(StoredRecord, frozen=True, kw_only=True):
    """Value of `jobs/<id>`."""

    job_id: JobId
    name: str
    pointer: str
    """Path of the graph in the storage."""
    digest: str
    nonce: str
    submitted_at: Millis
    idempotency_key: str | None = None
    owner: str = ""
    """Who submitted the job; empty if that is not known."""


class IdempotencyRecord(StoredRecord, frozen=True, kw_only=True):
    """The job that was accepted under a key; kept as long as the job's result."""

    job_id: JobId
    nonce: str


@dataclass(frozen=True, kw_only=True)
class StoredJob:
    record: JobRecord
    graph: JobGraph


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The job is stored durably."""

    record: JobRecord


@dataclass(frozen=True, kw_only=True)
class AlreadyAccepted:
    """The job was accepted before, under this id or the same idempotency key."""

    job_id: JobId
    record: JobRecord | None
    """None when that job has ended."""


@dataclass(frozen=True, kw_only=True)
class IdInUse:
    """The id belongs to another job."""

    job_id: JobId
    ended: bool


PutOutcome = Stored | AlreadyAccepted | IdInUse


def graph_digest(graph: JobGraph) -> str:
    """Equal for graphs that do the same, whatever their id and idempotency key.

    Fields at their default are left out, so that a release with more fields computes the same
    digest for a graph that an older release accepted.
    """
    plain = msgspec.structs.replace(
        graph, job_id=JobId(""), idempotency_key=None, restore=_chosen_by_user(graph.restore)
    )
    encoded = msgspec.json.encode(_without_defaults(plain), order="deterministic")
    return hashlib.sha256(encoded).hexdigest()


def _chosen_by_user(restore: Restore | None) -> Restore | None:
    """A choice of the cluster is no part of what was submitted, and may be submitted again."""
    return None if restore is None or restore.by_cluster else restore


def _without_defaults(value: Any) -> Any:
    match value:
        case msgspec.Struct():
            fields = {
                field.encode_name: _without_defaults(getattr(value, field.name))
                for field in _fields(type(value))
                if getattr(value, field.name) != default_of(field)
            }
            # No field has this name.
            return {"": value.__struct_config__.tag, **fields}
        case tuple():
            return [_without_defaults(each) for each in value]
        case _:
            return value


@functools.cache
def _fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Cached: looking up the fields takes far longer than digesting a graph."""
    return msgspec.structs.fields(kind)


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    """The default; for a required field NODEFAULT, which equals no value."""
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _may_be_of(recorded: str, owner: str) -> bool:
    """Whether a job with this recorded owner may be the one that this owner submits again."""
    return not recorded or not owner or recorded == owner


class JobGraphStore:
    """Writes under one leadership: the coordinator refuses those of an earlier leader."""

    def __init__(self, leadership: Leadership, storage: Storage, ids: Ids) -> None:
        self._leadership = leadership
        self._coordinator = leadership.coordinator
        self._storage = storage
        self._ids = ids

    async def put(self, graph: JobGraph, *, submitted_at: Millis, owner: str = "") -> PutOutcome:
        """Write the content, then the record, whose creation decides.

        ConnectionLost means that it is unknown whether the job was accepted; submit it again to
        find out. After every other error it was surely not accepted.
        """
        known = await self.known(graph, owner=owner)
        return known or await self.add(graph, submitted_at=submitted_at, owner=owner)

    async def add(self, graph: JobGraph, *, submitted_at: Millis, owner: str = "") -> PutOutcome:
        """Like `put`, for a caller that has just checked that the job is not known."""
        record = self._record_for(graph, submitted_at, owner)
        failpoint("job-graphs.before-content")
        await self._storage.write(record.pointer, encode(graph))
        failpoint("job-graphs.before-record")
        try:
            await self._create(record)
        except ConnectionLost:
            raise
        except KeyExists:
            await self._discard(record.pointer)
            known = await self.known(graph, owner=owner)
            if known is None:
                raise
            return known
        except StokerError:
            await self._discard(record.pointer)
            raise
        failpoint("job-graphs.after-record")
        return Stored(record=record)

    async def get(self, job_id: JobId) -> StoredJob | UnreadableJob | None:
        """None when there is no such job. StorageUnavailable when its content cannot be read."""
        found = await self._coordinator.read(keys.job(job_id))
        return None if found is None else await self._load(job_id, found.value)

    async def read_all(self, *, insistent: bool = False) -> list[StoredJob | UnreadableJob]:
        """All jobs. A store that cannot be read raises; it never counts as empty.

        When some graphs can be read and others cannot, the others are returned as unreadable, so
        that one bad file harms no other job. When none can be read, this raises, unless the
        caller is `insistent` and the storage still lists their folders.
        """
        loaded: list[StoredJob | UnreadableJob] = []
        failures: dict[JobId, StorageUnavailable] = {}
        for name in await self._coordinator.children(keys.JOBS):
            if not is_hex_id(name):
                log.warning("%s/%s is not a job; it is ignored", keys.JOBS, name)
                continue
            job_id = JobId(name)
            try:
                job = await self.get(job_id)
            except StorageUnavailable as error:
                failures[job_id] = error
                job = UnreadableJob(job_id=job_id, reason=str(error))
            loaded.extend([job] if job else [])
        if failures and not any(isinstance(job, StoredJob) for job in loaded):
            if not insistent:
                raise next(iter(failures.values()))
            for job_id in failures:
                await self._storage.list(keys.graph_folder(job_id))
        return loaded

    async def records(self) -> dict[JobId, JobRecord | None]:
        """The records of all jobs, without graphs; None for a record that cannot be read."""
        records: dict[JobId, JobRecord | None] = {}
        for name in await self._coordinator.children(keys.JOBS):
            job_id = JobId(name)
            try:
                record = await self.record(job_id)
            except CorruptContent:
                records[job_id] = None
            else:
                records |= {job_id: record} if record else {}
        return records

    async def remove(self, job_id: JobId) -> None:
        """Remove all records of the job at once, then its files with the graph. Idempotent.

        The idempotency key stays with the job's result.
        """
        failpoint("job-graphs.before-removing-record")
        while deletions := await self._deletions(job_id):
            try:
                await self._leadership.commit(deletions)
            except (NoSuchKey, VersionMismatch) as error:
                log.info("job %s changed while it was removed: %s", job_id, error)
        failpoint("job-graphs.before-removing-content")
        await self._storage.delete_tree(keys.job_folder(job_id))
        failpoint("job-graphs.after-removing-content")

    async def _deletions(self, job_id: JobId) -> list[Op]:
        """Deletions of the record, the cancellation request and the launch intents."""
        attempts = keys.attempts(job_id)
        regions = await self._coordinator.children(attempts)
        deletions: list[Op] = [Delete(f"{attempts}/{region}") for region in regions]
        for key in (keys.job(job_id), keys.cancellation(job_id)):
            found = await self._coordinator.read(key)
            deletions.extend([Delete(key, found.version)] if found else [])
        return deletions

    async def known(self, graph: JobGraph, *, owner: str = "") -> AlreadyAccepted | IdInUse | None:
        """The answer of `put` to a job that is not new; None when the job is new."""
        # This order finds a job that is ending and cleaned up meanwhile in one of the two places.
        live = await self._known_as_live(graph, owner)
        # The record stays until the clean-up, so the result takes precedence.
        known = await self._known_as_ended(graph, owner) or live
        return known or await self._known_by_key(graph.idempotency_key, owner)

    async def is_known(self, job_id: JobId) -> bool:
        """Whether a job has this id, also one that has ended or cannot be read."""
        # In this order, as in `known`.
        records = (keys.job(job_id), keys.result(job_id))
        return any([await self._coordinator.read(key) is not None for key in records])

    async def _known_as_live(self, graph: JobGraph, owner: str) -> AlreadyAccepted | IdInUse | None:
        try:
            record = await self.record(graph.job_id)
        except CorruptContent:
            return IdInUse(job_id=graph.job_id, ended=False)
        if record is None:
            return None
        if record.digest == graph_digest(graph) and _may_be_of(record.owner, owner):
            return AlreadyAccepted(job_id=graph.job_id, record=record)
        return IdInUse(job_id=graph.job_id, ended=False)

    async def _known_as_ended(
        self, graph: JobGraph, owner: str
    ) -> AlreadyAccepted | IdInUse | None:
        key = keys.result(graph.job_id)
        found = await self._coordinator.read(key)
        if found is None:
            return None
        try:
            record = decode_record(found.value, ResultRecord, key)
        except CorruptContent:
            return IdInUse(job_id=graph.job_id, ended=True)
        is_same_owner = _may_be_of(record.result.owner, owner)
        if record.graph_digest == graph_digest(graph) and is_same_owner:
            return AlreadyAccepted(job_id=graph.job_id, record=None)
        return IdInUse(job_id=graph.job_id, ended=True)

    async def _known_by_key(
        self, idempotency_key: str | None, owner: str
    ) -> AlreadyAccepted | None:
        if idempotency_key is None:
            return None
        # A key without an owner is of a release that recorded none.
        for key in dict.fromkeys(keys.idempotency(idempotency_key, each) for each in (owner, "")):
            found = await self._coordinator.read(key)
            if found is not None:
                first = decode_record(found.value, IdempotencyRecord, key).job_id
                return AlreadyAccepted(job_id=first, record=await self.record(first))
        return None

    async def record(self, job_id: JobId) -> JobRecord | None:
        """None when there is no such job; CorruptContent when its record cannot be read."""
        key = keys.job(job_id)
        found = await self._coordinator.read(key)
        return None if found is None else decode_record(found.value, JobRecord, key)

    def _record_for(self, graph: JobGraph, submitted_at: Millis, owner: str) -> JobRecord:
        nonce = self._ids.nonce()
        return JobRecord(
            job_id=graph.job_id,
            name=graph.name,
            pointer=f"{keys.graph_folder(graph.job_id)}/{nonce}.json",
            digest=graph_digest(graph),
            nonce=nonce,
            submitted_at=submitted_at,
            idempotency_key=graph.idempotency_key,
            owner=owner,
        )

    async def _create(self, record: JobRecord) -> None:
        key, value = keys.job(record.job_id), encode(record)
        ops: list[Op] = [Create(key, value)]
        if record.idempotency_key is not None:
            accepted = IdempotencyRecord(job_id=record.job_id, nonce=record.nonce)
            ops.append(
                Create(keys.idempotency(record.idempotency_key, record.owner), encode(accepted))
            )
        await commit_or_read_back(
            self._leadership, ops, key=key, is_ours=lambda found: found == value
        )

    async def _load(self, job_id: JobId, value: bytes) -> StoredJob | UnreadableJob:
        pointer, owner = None, ""
        try:
            record = decode_record(value, JobRecord, keys.job(job_id))
            pointer, owner = record.pointer, record.owner
            graph = decode_value(await self._storage.read(pointer), JobGraph, pointer)
            if graph_digest(graph) != record.digest or graph.job_id != job_id:
                raise CorruptContent(f"{pointer} is not the graph that was accepted")
        except (NotFound, CorruptContent) as error:
            return UnreadableJob(job_id=job_id, reason=str(error), pointer=pointer, owner=owner)
        return StoredJob(record=record, graph=graph)

    async def _discard(self, pointer: str) -> None:
        """Delete content that no record points to; if that fails, the sweep does it later."""
        try:
            await self._storage.delete(pointer)
        except StorageUnavailable as error:
            log.warning("%s is left for the sweep: %s", pointer, error)

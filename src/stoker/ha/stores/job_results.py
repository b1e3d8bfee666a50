"""The job result store: a job that has a result here never runs again.

A result is created dirty: the job has ended, but its files and records may still be there. It is
marked clean when the clean-up is done. A leader that finds a dirty result only cleans up.
"""

import logging
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from stoker.core.errors import (
    ConnectionLost,
    CorruptContent,
    JobNotFound,
    NoSuchKey,
    StokerError,
    StorageUnavailable,
    VersionMismatch,
)
from stoker.core.failpoints import failpoint
from stoker.core.ids import Ids, JobId, is_hex_id
from stoker.core.results import Failure, JobDetails, JobResult
from stoker.core.values import Millis, decode_value
from stoker.ha import keys
from stoker.ha.coordinator import Create, Delete, Op, Put
from stoker.ha.leadership import Leadership
from stoker.ha.record import StoredRecord, decode_record, encode
from stoker.ha.stores.fenced import commit_or_read_back
from stoker.storage.contract import Storage

log = logging.getLogger(__name__)

MAX_TEXT_IN_RECORD = 16 * 1024
"""Limit for a failure's message and stack trace; the details have the full text."""


@dataclass(frozen=True, kw_only=True)
class UnreadableJob:
    """A job or a result whose record or content cannot be read. It is kept and shown to users."""

    job_id: JobId
    reason: str
    pointer: str | None = None
    """Path of the content in the storage, if the record names one."""
    owner: str = ""


class ResultRecord(StoredRecord, frozen=True, kw_only=True):
    """Value of `results/<id>`."""

    result: JobResult
    dirty: bool
    """The clean-up of the job is not finished."""
    pointer: str
    """Path of the details in the storage."""
    nonce: str
    graph_digest: str | None = None
    idempotency_key: str | None = None


class _AcceptedJob(StoredRecord, frozen=True, kw_only=True):
    """The part of a job's record that the job's result keeps."""

    digest: str | None = None
    idempotency_key: str | None = None


class JobResultStore:
    """Writes under one leadership: the coordinator refuses those of an earlier leader."""

    def __init__(self, leadership: Leadership, storage: Storage, ids: Ids) -> None:
        self._leadership = leadership
        self._coordinator = leadership.coordinator
        self._storage = storage
        self._ids = ids
        self._created: dict[JobId, ResultRecord] = {}
        """Results that this leader created and has not marked clean; nobody else changes them."""

    async def create_dirty(self, result: JobResult, details: JobDetails) -> None:
        """Record the end of a job, once; KeyExists when there is a result already.

        ConnectionLost means that the outcome is unknown: the next leader finds the result, or
        decides again.
        """
        record = await self._record_for(result)
        failpoint("job-results.before-content")
        await self._storage.write(record.pointer, encode(details))
        failpoint("job-results.before-record")
        key, value = keys.result(result.job_id), encode(record)
        try:
            await commit_or_read_back(
                self._leadership,
                [Create(key, value)],
                key=key,
                is_ours=lambda found: found == value,
            )
        except ConnectionLost:
            raise
        except StokerError:
            await self._discard(record.pointer)
            raise
        self._created[result.job_id] = record
        failpoint("job-results.after-record")

    async def mark_clean(self, job_id: JobId) -> None:
        """Record that the clean-up is done. Idempotent; JobNotFound when there is no result."""
        key, version = keys.result(job_id), 0
        record = self._created.pop(job_id, None)
        if record is None:
            found = await self._coordinator.read(key)
            if found is None:
                raise JobNotFound(job_id)
            record, version = decode_record(found.value, ResultRecord, key), found.version
        if not record.dirty:
            return
        clean = encode(msgspec.structs.replace(record, dirty=False))
        failpoint("job-results.before-marking-clean")
        await commit_or_read_back(
            self._leadership,
            [Put(key, clean, version)],
            key=key,
            is_ours=lambda value: value == clean,
        )
        failpoint("job-results.after-marking-clean")

    async def get(self, job_id: JobId) -> ResultRecord | None:
        """CorruptContent for a result that cannot be read: the job has ended in some way."""
        key = keys.result(job_id)
        found = await self._coordinator.read(key)
        return None if found is None else decode_record(found.value, ResultRecord, key)

    async def all(self) -> list[ResultRecord | UnreadableJob]:
        """Results of all jobs that have ended, also those whose result cannot be read."""
        records: list[ResultRecord | UnreadableJob] = []
        for name in await self._coordinator.children(keys.RESULTS):
            if not is_hex_id(name):
                log.warning("%s/%s is not a result; it is ignored", keys.RESULTS, name)
                continue
            try:
                record = await self.get(JobId(name))
            except CorruptContent as error:
                records.append(UnreadableJob(job_id=JobId(name), reason=str(error)))
            else:
                records.extend([record] if record else [])
        return records

    async def dirty(self) -> list[ResultRecord]:
        """Results of jobs whose clean-up is not finished."""
        records = await self.all()
        return [record for record in records if isinstance(record, ResultRecord) and record.dirty]

    async def details(self, job_id: JobId) -> JobDetails:
        """The details at the job's end. JobNotFound without a result, NotFound if they are lost."""
        record = await self.get(job_id)
        if record is None:
            raise JobNotFound(job_id)
        return decode_value(await self._storage.read(record.pointer), JobDetails, record.pointer)

    async def prune(
        self, now: Millis, max_age: timedelta | None, max_count: int | None
    ) -> list[JobId]:
        """Remove clean results that are too old or too many; their ids may be used again."""
        doomed = beyond_retention(await self.all(), now, max_age, max_count)
        for record in doomed:
            await self._forget(record)
        return [record.result.job_id for record in doomed]

    async def _forget(self, record: ResultRecord) -> None:
        job_id = record.result.job_id
        ops: list[Op] = [Delete(keys.result(job_id))]
        if record.idempotency_key is not None:
            key = keys.idempotency(record.idempotency_key, record.result.owner)
            found = await self._coordinator.read(key)
            ops.extend([Delete(key, found.version)] if found else [])
        failpoint("job-results.before-pruning-record")
        try:
            await self._leadership.commit(ops)
        except (NoSuchKey, VersionMismatch) as error:
            log.info("the result of %s was changed meanwhile: %s", job_id, error)
            return
        failpoint("job-results.before-pruning-content")
        await self._storage.delete_tree(keys.details_folder(job_id))
        failpoint("job-results.before-pruning-rows")
        await self._storage.delete_tree(keys.rows_folder(job_id))
        failpoint("job-results.after-pruning-content")

    async def _record_for(self, result: JobResult) -> ResultRecord:
        key = keys.job(result.job_id)
        found = await self._coordinator.read(key)
        accepted = _AcceptedJob()
        if found is not None:
            try:
                accepted = decode_record(found.value, _AcceptedJob, key)
            except CorruptContent as error:
                log.warning("the result is recorded without its idempotency key: %s", error)
        nonce = self._ids.nonce()
        return ResultRecord(
            result=_shortened(result),
            dirty=True,
            pointer=f"{keys.details_folder(result.job_id)}/{nonce}.json",
            nonce=nonce,
            graph_digest=accepted.digest,
            idempotency_key=accepted.idempotency_key,
        )

    async def _discard(self, pointer: str) -> None:
        """Delete content that no record points to; if that fails, the sweep does it later."""
        try:
            await self._storage.delete(pointer)
        except StorageUnavailable as error:
            log.warning("%s is left for the sweep: %s", pointer, error)


def beyond_retention(
    records: list[ResultRecord | UnreadableJob],
    now: Millis,
    max_age: timedelta | None,
    max_count: int | None,
) -> list[ResultRecord]:
    """Clean results beyond the age limit, and the oldest ones beyond the count limit."""
    clean = [r for r in records if isinstance(r, ResultRecord) and not r.dirty]
    newest_first = sorted(clean, key=lambda r: (r.result.end, r.result.job_id), reverse=True)
    oldest_end = None if max_age is None else now - max_age // timedelta(milliseconds=1)
    return [
        record
        for place, record in enumerate(newest_first)
        if (max_count is not None and place >= max_count)
        or (oldest_end is not None and record.result.end < oldest_end)
    ]


def _shortened(result: JobResult) -> JobResult:
    if result.failure is None:
        return result
    failure: Failure = msgspec.structs.replace(
        result.failure,
        message=_cut(result.failure.message),
        stack_trace=_cut(result.failure.stack_trace),
    )
    return msgspec.structs.replace(result, failure=failure)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT_IN_RECORD else f"{text[:MAX_TEXT_IN_RECORD]}…"

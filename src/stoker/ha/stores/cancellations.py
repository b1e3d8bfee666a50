"""Cancellation requests of users, durable before they are acknowledged.

Whoever leads carries them out, also after a fail-over. The stored names (`wishes/<job>`, the field
`wish`) are older than the name of this module.
"""

import logging
from enum import StrEnum

from stoker.core.errors import CorruptContent, JobNotFound, KeyExists, NoSuchKey, VersionMismatch
from stoker.core.failpoints import failpoint
from stoker.core.ids import Ids, JobId, is_hex_id
from stoker.core.values import Millis
from stoker.ha import keys
from stoker.ha.coordinator import Check, Create, Delete
from stoker.ha.leadership import Leadership
from stoker.ha.record import StoredRecord, decode_record, encode
from stoker.ha.stores.fenced import commit_or_read_back

log = logging.getLogger(__name__)


class JobRequest(StrEnum):
    CANCEL = "cancel"


class CancellationRecord(StoredRecord, frozen=True, kw_only=True):
    """Value of `wishes/<id>`; removed together with the job's record."""

    job_id: JobId
    wish: JobRequest
    at: Millis
    nonce: str


class CancellationStore:
    """Writes under one leadership: the coordinator refuses those of an earlier leader."""

    def __init__(self, leadership: Leadership, ids: Ids) -> None:
        self._leadership = leadership
        self._coordinator = leadership.coordinator
        self._ids = ids

    async def cancel(self, job_id: JobId, *, at: Millis) -> None:
        """Record the request; every leader carries it out. Idempotent.

        JobNotFound when the job is gone. ConnectionLost means that the outcome is unknown: ask
        again.
        """
        job = await self._coordinator.read(keys.job(job_id))
        if job is None:
            raise JobNotFound(job_id)
        key = keys.cancellation(job_id)
        value = encode(
            CancellationRecord(
                job_id=job_id, wish=JobRequest.CANCEL, at=at, nonce=self._ids.nonce()
            )
        )
        failpoint("cancellations.before-record")
        try:
            # A job is removed with its request, so none may be created for a job that is gone.
            await commit_or_read_back(
                self._leadership,
                [Check(keys.job(job_id), job.version), Create(key, value)],
                key=key,
                is_ours=lambda found: found == value,
            )
        except KeyExists:
            return
        except (NoSuchKey, VersionMismatch):
            raise JobNotFound(job_id) from None
        failpoint("cancellations.after-record")

    async def get(self, job_id: JobId) -> CancellationRecord | None:
        key = keys.cancellation(job_id)
        found = await self._coordinator.read(key)
        return None if found is None else decode_record(found.value, CancellationRecord, key)

    async def all(self) -> dict[JobId, CancellationRecord]:
        requests: dict[JobId, CancellationRecord] = {}
        for name in await self._coordinator.children(keys.CANCELLATIONS):
            request = await self._get_or_assume(JobId(name)) if is_hex_id(name) else None
            if request is not None:
                requests[JobId(name)] = request
        return requests

    async def _get_or_assume(self, job_id: JobId) -> CancellationRecord | None:
        try:
            return await self.get(job_id)
        except CorruptContent as error:
            # The request was acknowledged, and there is only one kind.
            log.error("%s; the request counts as a cancel", error)
            return CancellationRecord(job_id=job_id, wish=JobRequest.CANCEL, at=0, nonce="")

    async def remove(self, job_id: JobId) -> None:
        """Remove the request. Idempotent."""
        key = keys.cancellation(job_id)
        found = await self._coordinator.read(key)
        if found is None:
            return
        try:
            await self._leadership.commit([Delete(key, found.version)])
        except NoSuchKey:
            return

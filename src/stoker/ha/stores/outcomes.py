"""Outcomes of attempts: written once, by whoever finished the attempt, before anyone is told."""

from stoker.core.errors import KeyExists, NotFound
from stoker.core.failpoints import failpoint
from stoker.core.ids import AttemptId, JobId, RegionId
from stoker.core.results import AttemptOutcome
from stoker.ha import keys
from stoker.ha.record import StoredRecord, decode_record, encode
from stoker.storage.contract import Storage


class _OutcomeRecord(StoredRecord, frozen=True, kw_only=True):
    outcome: AttemptOutcome


class OutcomeStore:
    """Needs no leadership: the first outcome of an attempt stands, and none can be changed."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def write(self, outcome: AttemptOutcome) -> AttemptOutcome:
        """The outcome that stands: this one, or the one that was written before it."""
        path = keys.outcome(outcome.job_id, outcome.region, outcome.attempt)
        failpoint("outcomes.before-content")
        try:
            await self._storage.create(path, encode(_OutcomeRecord(outcome=outcome)))
        except KeyExists:
            return await self._load(path)
        failpoint("outcomes.after-content")
        return outcome

    async def read(
        self, job_id: JobId, region: RegionId, attempt: AttemptId
    ) -> AttemptOutcome | None:
        """None when the attempt has not ended, as far as the storage knows."""
        try:
            return await self._load(keys.outcome(job_id, region, attempt))
        except NotFound:
            return None

    async def of_region(self, job_id: JobId, region: RegionId) -> list[AttemptOutcome]:
        """Of all its attempts that ended, oldest first."""
        paths = await self._storage.list(keys.outcomes_of_region(job_id, region))
        outcomes = [await self._load(path) for path in paths]
        return sorted(outcomes, key=lambda outcome: (outcome.at, outcome.attempt))

    async def remove_job(self, job_id: JobId) -> None:
        """That there are none is fine."""
        await self._storage.delete_tree(keys.outcomes_folder(job_id))

    async def _load(self, path: str) -> AttemptOutcome:
        return decode_record(await self._storage.read(path), _OutcomeRecord, path).outcome

"""Records that live in the storage alone, and are created once: outcomes and publications.

Task executors write outcomes, and the processes of their tasks write publications, also while no
master leads. So no leadership can fence them, and creation decides instead: of all processes that
try, exactly one creates the file, and every other reads what the first one has written.
"""

from stoker.core.errors import KeyExists, NotFound
from stoker.core.failpoints import failpoint
from stoker.core.ids import AttemptId, JobId, RegionId
from stoker.core.manifests import Publication
from stoker.core.results import AttemptOutcome
from stoker.ha import keys
from stoker.ha.record import StoredRecord, decode_record, encode
from stoker.storage.contract import Storage


class _OutcomeRecord(StoredRecord, frozen=True, kw_only=True):
    outcome: AttemptOutcome


class OutcomeStore:
    """Outcomes of attempts, written before anyone is informed of them."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def write(self, outcome: AttemptOutcome) -> AttemptOutcome:
        """The outcome that counts: this one, or the one that was written before it."""
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
        """None when the storage has no outcome of the attempt, which may still run."""
        try:
            return await self._load(keys.outcome(job_id, region, attempt))
        except NotFound:
            return None

    async def of_region(self, job_id: JobId, region: RegionId) -> list[AttemptOutcome]:
        """The outcomes of all attempts that have ended, oldest first."""
        paths = await self._storage.list(keys.outcomes_of_region(job_id, region))
        outcomes = [await self._load(path) for path in paths]
        return sorted(outcomes, key=lambda outcome: (outcome.at, outcome.attempt))

    async def _load(self, path: str) -> AttemptOutcome:
        return decode_record(await self._storage.read(path), _OutcomeRecord, path).outcome


class _PublicationRecord(StoredRecord, frozen=True, kw_only=True):
    publication: Publication


class PublicationStore:
    """Which attempt's output of a sink is published.

    `folder` is the folder of the job's results in the storage.
    """

    def __init__(self, storage: Storage, folder: str = "") -> None:
        self._storage = storage
        self._folder = folder

    @classmethod
    def of_job(cls, storage: Storage, job_id: JobId) -> "PublicationStore":
        return cls(storage, keys.results_folder(job_id))

    async def decide(self, region: RegionId, publication: Publication) -> Publication:
        """The publication that counts: this one, or the one that was decided before it."""
        path = self._path(region)
        try:
            await self._storage.create(path, encode(_PublicationRecord(publication=publication)))
        except KeyExists:
            return await self._load(path)
        return publication

    async def read(self, region: RegionId) -> Publication | None:
        """None when no attempt has decided to publish yet."""
        try:
            return await self._load(self._path(region))
        except NotFound:
            return None

    def _path(self, region: RegionId) -> str:
        name = keys.publication(region)
        return f"{self._folder}/{name}" if self._folder else name

    async def _load(self, path: str) -> Publication:
        return decode_record(await self._storage.read(path), _PublicationRecord, path).publication

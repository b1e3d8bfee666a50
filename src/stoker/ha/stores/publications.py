"""Which attempt's output of a sink is the one to publish: written once, never changed."""

from stoker.core.errors import KeyExists, NotFound
from stoker.core.ids import JobId, RegionId
from stoker.core.manifests import Publication
from stoker.ha import keys
from stoker.ha.record import StoredRecord, decode_record, encode
from stoker.storage.contract import Storage


class _PublicationRecord(StoredRecord, frozen=True, kw_only=True):
    publication: Publication


class PublicationStore:
    """Needs no leadership: of several attempts exactly one creates the record.

    `folder` is where the job's results stand in the storage.
    """

    def __init__(self, storage: Storage, folder: str = "") -> None:
        self._storage = storage
        self._folder = folder

    @classmethod
    def of_job(cls, storage: Storage, job_id: JobId) -> "PublicationStore":
        return cls(storage, keys.results_folder(job_id))

    async def decide(self, region: RegionId, publication: Publication) -> Publication:
        """The publication that stands: this one, or the one that was decided before it."""
        path = self._path(region)
        try:
            await self._storage.create(path, encode(_PublicationRecord(publication=publication)))
        except KeyExists:
            return await self._load(path)
        return publication

    async def read(self, region: RegionId) -> Publication | None:
        """None when no attempt has got so far."""
        try:
            return await self._load(self._path(region))
        except NotFound:
            return None

    def _path(self, region: RegionId) -> str:
        name = keys.publication(region)
        return f"{self._folder}/{name}" if self._folder else name

    async def _load(self, path: str) -> Publication:
        return decode_record(await self._storage.read(path), _PublicationRecord, path).publication

"""One attempt to bring an artifact to the local disk, and what its failure is called."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from stoker.blob.content import OffLoop, check_digest
from stoker.blob.keys import described, path_of
from stoker.core.errors import (
    BlobNotFound,
    CorruptContent,
    NotFound,
    StokerError,
    StorageUnavailable,
)
from stoker.core.ids import BlobKey, JobId
from stoker.storage.contract import Storage

Fetch = Callable[[JobId, BlobKey, Path], Awaitable[None]]
"""Writes the artifact to the path; raises BlobNotFound, CorruptContent or Unavailable."""


class Sources:
    """Where artifacts come from: the shared storage first, then a master."""

    def __init__(self, storage: Storage | None, fetch: Fetch | None, off_loop: OffLoop) -> None:
        ways = (_from_storage(storage) if storage else None, fetch)
        self._ways = tuple(way for way in ways if way)
        self._off_loop = off_loop
        if not self._ways:
            raise ValueError("artifacts need a storage, a master to fetch from, or both")

    async def bring(self, job_id: JobId, key: BlobKey, name: str, target: Path) -> None:
        """The target holds the artifact, checked; else the error of the last source."""
        what = described(job_id, key, name)
        failure: StokerError = BlobNotFound(f"{what} has no source")
        for way in self._ways:
            try:
                await way(job_id, key, target)
                await check_digest(target, key, what, self._off_loop)
            except StokerError as error:
                failure = error
            else:
                return
        raise failure


def _from_storage(storage: Storage) -> Fetch:
    async def download(job_id: JobId, key: BlobKey, target: Path) -> None:
        await storage.download(path_of(job_id, key), target)

    return download


def final_failure(
    error: StokerError, job_id: JobId, key: BlobKey, name: str, tries: int
) -> StokerError:
    """What a job is told after the last try."""
    message = (
        f"{described(job_id, key, name)} could not be fetched in {tries} tries: {error.message}"
    )
    facts = {"job_id": job_id, "key": key, "name": name}
    match error:
        case NotFound():
            return BlobNotFound(message, **facts)
        case CorruptContent():
            return CorruptContent(message, **facts)
        case _:
            return StorageUnavailable(message, **facts)

"""The cache of artifacts on the disk of a task executor: fetched once, checked, shared, released.

Artifacts come from the shared storage. Many tasks of a job need the same files at the same time, so
they share one transfer. Files of registered jobs are never evicted; files of other jobs are kept
for a while, because jobs tend to run again. A file that was changed on the disk is noticed by its
fingerprint and fetched again.
"""

import asyncio
import logging
import os
from collections import Counter, OrderedDict
from collections.abc import Collection
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from stoker.aio.retry import Backoff, retry
from stoker.aio.scope import TaskScope
from stoker.blob.keys import blob_key, described, folder_of, path_of
from stoker.blob.options import BlobOptions
from stoker.blob.transfer import (
    OffLoop,
    check_digest,
    final_failure,
    make_empty_folder,
    remove_files_below,
    sha256_of,
    temporary_folder,
)
from stoker.core.errors import StartupFailed, StokerError, Unavailable
from stoker.core.ids import BlobKey, JobId
from stoker.storage.contract import Storage, storage_unavailable

log = logging.getLogger(__name__)

FETCH_BACKOFF = Backoff(initial=timedelta(milliseconds=100), maximum=timedelta(seconds=5))

Entry = tuple[JobId, BlobKey]
Fingerprint = tuple[int, int, int]
"""Inode, size and time of change; if they are the same, nobody has changed the file."""


class SizeTracker:
    """Sizes of the files in a cache, in order of last use; chooses which to evict. Pure."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._sizes: OrderedDict[Entry, int] = OrderedDict()

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._sizes

    def add(self, entry: Entry, size: int) -> None:
        self.remove(entry)
        self._sizes[entry] = size
        self.total += size

    def touch(self, entry: Entry) -> None:
        self._sizes.move_to_end(entry)

    def remove(self, entry: Entry) -> None:
        self.total -= self._sizes.pop(entry, 0)

    def of_job(self, job_id: JobId) -> tuple[Entry, ...]:
        return tuple(entry for entry in self._sizes if entry[0] == job_id)

    def victims(self, needed: int, in_use: Collection[JobId]) -> tuple[Entry, ...]:
        """Files to evict so that `needed` bytes fit: least recently used first, none in use.

        When that is not enough, all unused files go, and the cache exceeds its limit.
        """
        excess = self.total + needed - self.limit
        chosen: list[Entry] = []
        for entry, size in self._sizes.items():
            if excess <= 0:
                break
            if entry[0] not in in_use:
                chosen.append(entry)
                excess -= size
        return tuple(chosen)


class BlobCache:
    """`folder` belongs to this process alone; it is emptied at the start and at the end."""

    def __init__(
        self,
        folder: Path,
        options: BlobOptions,
        *,
        storage: Storage,
        off_loop: OffLoop = asyncio.to_thread,
    ) -> None:
        self._folder = folder
        self._options = options
        self._storage = storage
        self._off_loop = off_loop
        self._tracker = SizeTracker(options.cache_size_limit)
        self._checked: dict[Entry, Fingerprint] = {}
        self._transfers: dict[Entry, asyncio.Future[Path]] = {}
        self._references: Counter[JobId] = Counter()
        self._cleanups: dict[JobId, asyncio.Task[None]] = {}
        self._scope = TaskScope("blob-cache")

    async def __aenter__(self) -> Self:
        try:
            await self._off_loop(make_empty_folder, self._folder)
        except OSError as error:
            raise StartupFailed(
                f"the folder {self._folder} for artifacts cannot be used: {error.strerror}; "
                "make it writable or choose another working directory",
                path=str(self._folder),
            ) from error
        await self._scope.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        try:
            return await self._scope.__aexit__(kind, error, traceback)
        finally:
            self._tracker = SizeTracker(self._options.cache_size_limit)
            remove_files_below(self._folder)

    @property
    def size(self) -> int:
        """Bytes that the cache holds."""
        return self._tracker.total

    def register(self, job_id: JobId) -> None:
        """Add a user of the job's artifacts, which stay until each user has released them."""
        self._references[job_id] += 1
        cleanup = self._cleanups.pop(job_id, None)
        if cleanup:
            cleanup.cancel()

    def release(self, job_id: JobId) -> None:
        """Remove a user; after the last one, the files are deleted once the interval has passed."""
        if self._references[job_id] > 1:
            self._references[job_id] -= 1
            return
        del self._references[job_id]
        self._clean_up_later(job_id)

    async def get(self, job_id: JobId, key: BlobKey, *, name: str = "") -> Path:
        """The artifact as a local file, which stays while the job is registered.

        Concurrent calls share one transfer. After the last try, raise BlobNotFound, CorruptContent
        or StorageUnavailable, naming the artifact.
        """
        folder_of(job_id)
        entry = (job_id, blob_key(key))
        transfer = self._transfers.get(entry)
        if transfer is None:
            transfer = asyncio.get_running_loop().create_future()
            # Retrieve the error even if all waiters are gone, or asyncio would log it.
            transfer.add_done_callback(lambda done: done.exception())
            task = self._scope.spawn(f"get {key[:12]}", self._transfer(entry, name, transfer))
            task.add_done_callback(partial(self._on_transfer_ended, entry, transfer))
            self._transfers[entry] = transfer
        # A waiter that is cancelled does not stop the transfer of the others.
        return await asyncio.shield(transfer)

    async def _transfer(self, entry: Entry, name: str, transfer: "asyncio.Future[Path]") -> None:
        try:
            transfer.set_result(await self._local(entry, name))
        except StokerError as error:
            transfer.set_exception(error)

    def _on_transfer_ended(
        self, entry: Entry, transfer: "asyncio.Future[Path]", _task: "asyncio.Task[None]"
    ) -> None:
        # A task that is cancelled before its first step never runs, so only its end is certain.
        del self._transfers[entry]
        if not transfer.done():
            transfer.set_exception(Unavailable(f"artifact {entry[1]}: the cache is closing"))

    async def _local(self, entry: Entry, name: str) -> Path:
        path = self._path(entry)
        if entry in self._tracker:
            intact = await self._is_intact(entry)
            if intact and entry in self._tracker:
                self._tracker.touch(entry)
                return path
            if not intact:
                log.warning(
                    "%s is damaged on this disk, fetching it again", described(*entry, name)
                )
        try:
            self._drop((entry,))
            await self._fetch(entry, name)
        except OSError as error:
            raise storage_unavailable("write", path.as_uri(), error) from error
        if entry[0] not in self._references:
            self._clean_up_later(entry[0])
        return path

    async def _fetch(self, entry: Entry, name: str) -> None:
        job_id, key = entry
        tries = self._options.fetch_retries + 1
        with temporary_folder(self._folder) as folder:
            fetched = folder / key
            try:
                await retry(
                    lambda: self._download(entry, name, fetched),
                    on=StokerError,
                    backoff=FETCH_BACKOFF,
                    attempts=tries,
                )
            except StokerError as error:
                raise final_failure(error, job_id, key, name, tries) from error
            size = fetched.stat().st_size
            self._drop(self._tracker.victims(size, self._references))
            path = self._path(entry)
            path.parent.mkdir(exist_ok=True)
            fetched.replace(path)
        self._tracker.add(entry, size)
        self._checked[entry] = _fingerprint(path)

    async def _download(self, entry: Entry, name: str, target: Path) -> None:
        await self._storage.download(path_of(*entry), target)
        await check_digest(target, entry[1], described(*entry, name), self._off_loop)

    async def _is_intact(self, entry: Entry) -> bool:
        """Check the digest, unless the file is unchanged since the last check."""
        path = self._path(entry)
        try:
            fingerprint = _fingerprint(path)
            if fingerprint == self._checked.get(entry):
                return True
            intact = await self._off_loop(sha256_of, path) == entry[1]
        except OSError:
            return False
        if intact:
            self._checked[entry] = fingerprint
        return intact

    def _clean_up_later(self, job_id: JobId) -> None:
        if job_id not in self._cleanups and self._tracker.of_job(job_id):
            self._cleanups[job_id] = self._scope.spawn(f"clean up {job_id}", self._clean_up(job_id))

    async def _clean_up(self, job_id: JobId) -> None:
        await asyncio.sleep(self._options.cleanup_interval.total_seconds())
        del self._cleanups[job_id]
        try:
            self._drop(self._tracker.of_job(job_id))
        except OSError as error:
            log.warning("artifacts of job %s cannot be removed: %s", job_id, error)

    def _drop(self, entries: tuple[Entry, ...]) -> None:
        for entry in entries:
            self._tracker.remove(entry)
            self._checked.pop(entry, None)
            _unlink(self._path(entry))

    def _path(self, entry: Entry) -> Path:
        return self._folder / entry[0] / entry[1]


def _fingerprint(path: Path) -> Fingerprint:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _unlink(path: Path) -> None:
    """Remove the file, and its folder if that is empty then."""
    path.unlink(missing_ok=True)
    if path.parent.is_dir() and not os.listdir(path.parent):
        path.parent.rmdir()

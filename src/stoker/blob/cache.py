"""Artifacts on the disk of a task executor: fetched once, checked, shared, released."""

import asyncio
import logging
import os
from collections import Counter
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from stoker.aio.retry import Backoff, retry
from stoker.aio.scope import TaskScope
from stoker.blob.content import (
    OffLoop,
    make_empty_folder,
    remove_files_below,
    sha256_of,
    temporary_folder,
)
from stoker.blob.eviction import Entry, SizeTracker
from stoker.blob.fetching import Fetch, Sources, final_failure
from stoker.blob.keys import blob_key, described, folder_of
from stoker.blob.options import BlobOptions
from stoker.core.errors import StartupFailed, StokerError, Unavailable
from stoker.core.ids import BlobKey, JobId
from stoker.storage.contract import Storage
from stoker.storage.failures import storage_unavailable

log = logging.getLogger(__name__)

FETCH_BACKOFF = Backoff(initial=timedelta(milliseconds=100), maximum=timedelta(seconds=5))

Fingerprint = tuple[int, int, int]
"""Inode, size and time of change: the same ones mean that nobody touched the file."""


class BlobCache:
    """`folder` belongs to this process alone; it is emptied at the start and at the end."""

    def __init__(
        self,
        folder: Path,
        options: BlobOptions,
        *,
        storage: Storage | None = None,
        fetch: Fetch | None = None,
        off_loop: OffLoop = asyncio.to_thread,
    ) -> None:
        self._folder = folder
        self._options = options
        self._sources = Sources(storage, fetch, off_loop)
        self._off_loop = off_loop
        self._tracker = SizeTracker(options.cache_size_limit)
        self._checked: dict[Entry, Fingerprint] = {}
        self._flights: dict[Entry, asyncio.Future[Path]] = {}
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
        """One more user of the job's artifacts: they stay until as many have released them."""
        self._references[job_id] += 1
        cleanup = self._cleanups.pop(job_id, None)
        if cleanup:
            cleanup.cancel()

    def release(self, job_id: JobId) -> None:
        """One user less; after the last one the files go when the clean-up interval has passed."""
        if self._references[job_id] > 1:
            self._references[job_id] -= 1
            return
        del self._references[job_id]
        self._clean_up_later(job_id)

    async def get(self, job_id: JobId, key: BlobKey, *, name: str = "") -> Path:
        """The artifact as a local file, which stays while the job is registered.

        All who ask for it at the same time share one transfer. After the last try BlobNotFound,
        CorruptContent or StorageUnavailable is raised, naming the artifact.
        """
        folder_of(job_id)
        entry = (job_id, blob_key(key))
        flight = self._flights.get(entry)
        if flight is None:
            flight = asyncio.get_running_loop().create_future()
            # Somebody looks at the outcome even when all who waited are gone.
            flight.add_done_callback(lambda done: done.exception())
            task = self._scope.spawn(f"get {key[:12]}", self._fly(entry, name, flight))
            task.add_done_callback(partial(self._landed, entry, flight))
            self._flights[entry] = flight
        # One who stops waiting does not stop the others.
        return await asyncio.shield(flight)

    async def _fly(self, entry: Entry, name: str, flight: "asyncio.Future[Path]") -> None:
        try:
            flight.set_result(await self._local(entry, name))
        except StokerError as error:
            flight.set_exception(error)

    def _landed(
        self, entry: Entry, flight: "asyncio.Future[Path]", _task: "asyncio.Task[None]"
    ) -> None:
        # A task that is cancelled before its first step never runs: only its end is sure to come.
        del self._flights[entry]
        if not flight.done():
            flight.set_exception(Unavailable(f"artifact {entry[1]}: the cache is closing"))

    async def _local(self, entry: Entry, name: str) -> Path:
        path = self._path(entry)
        if entry in self._tracker:
            intact = await self._is_intact(entry)
            if intact and entry in self._tracker:
                self._tracker.touch(entry)
                return path
            log.warning("%s is damaged on this disk, fetching it again", described(*entry, name))
        try:
            self._drop((entry,))
            await self._bring(entry, name)
        except OSError as error:
            raise storage_unavailable("write", path.as_uri(), error) from error
        if entry[0] not in self._references:
            self._clean_up_later(entry[0])
        return path

    async def _bring(self, entry: Entry, name: str) -> None:
        job_id, key = entry
        tries = self._options.fetch_retries + 1
        with temporary_folder(self._folder) as folder:
            fetched = folder / key
            try:
                await retry(
                    lambda: self._sources.bring(job_id, key, name, fetched),
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

    async def _is_intact(self, entry: Entry) -> bool:
        """By its digest, unless the file is untouched since that was last checked."""
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
    """Remove the file, and its folder if it was the last one there."""
    path.unlink(missing_ok=True)
    if path.parent.is_dir() and not os.listdir(path.parent):
        path.parent.rmdir()

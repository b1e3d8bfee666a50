"""Receives the artifacts of jobs and keeps them in the shared storage.

Task executors read them from the storage (`blob/cache.py`), never through a master.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from stoker.blob.keys import FOLDER, blob_key, described, folder_of, path_of
from stoker.blob.options import BlobOptions
from stoker.blob.transfer import OffLoop, make_empty_folder, received, remove_files_below, too_large
from stoker.core.errors import CorruptContent, StartupFailed
from stoker.core.ids import BlobKey, JobId
from stoker.storage.contract import Storage
from stoker.storage.room import check_free_space, check_total_size

READ_BYTES = 1 << 20


class BlobServer:
    """Part of a master. `incoming` is a folder of this process alone, for unfinished transfers."""

    def __init__(
        self,
        storage: Storage,
        incoming: Path,
        options: BlobOptions,
        *,
        off_loop: OffLoop = asyncio.to_thread,
    ) -> None:
        self._storage = storage
        self._incoming = incoming
        self._options = options
        self._off_loop = off_loop
        self._being_stored = 0
        """Bytes of artifacts that passed the checks and are not yet stored."""

    async def __aenter__(self) -> Self:
        try:
            await self._off_loop(make_empty_folder, self._incoming)
        except OSError as error:
            raise StartupFailed(
                f"the folder {self._incoming} for uploads cannot be used: {error.strerror}; "
                "make it writable or choose another working directory",
                path=str(self._incoming),
            ) from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        remove_files_below(self._incoming)

    async def put(
        self, job_id: JobId, chunks: AsyncIterable[bytes], *, sha256: str, name: str = ""
    ) -> BlobKey:
        """Store content for a job; it is durable and verified when this returns.

        `sha256` is the digest that the sender announced. Content that the job has is stored once.
        """
        key = blob_key(sha256)
        path = path_of(job_id, key)
        what = described(job_id, key, name)
        limit = self._options.upload_size_limit
        async with received(
            chunks, self._incoming, limit=limit, what=what, off_loop=self._off_loop
        ) as upload:
            if upload.sha256 != sha256:
                raise CorruptContent(
                    f"{what} arrived damaged: {upload.size} bytes with SHA-256 {upload.sha256}; "
                    "upload it again",
                    expected=sha256,
                    actual=upload.sha256,
                )
            async with self._room_for(path, upload.size):
                # Overwrites an equal file too, which repairs a damaged stored copy.
                await self._storage.upload(upload.path, path)
        return key

    async def put_file(
        self, job_id: JobId, source: Path, *, sha256: str, name: str = ""
    ) -> BlobKey:
        """Like `put`, from a local file, which is kept."""
        return await self.put(job_id, self._chunks_of(source), sha256=sha256, name=name)

    async def adopt(
        self, job_id: JobId, source: Path, *, sha256: str, size: int, name: str = ""
    ) -> BlobKey:
        """Like `put`, from a local file that the caller has received and hashed and hands over."""
        key = blob_key(sha256)
        limit = self._options.upload_size_limit
        if size > limit:
            raise too_large(described(job_id, key, name), limit)
        path = path_of(job_id, key)
        async with self._room_for(path, size):
            await self._storage.adopt(source, path)
        return key

    async def check_room(self, size: int = 0) -> None:
        """Raise StorageFull if clients may not store so many more bytes."""
        reserve = self._options.storage_reserve
        await check_free_space(self._storage, size, reserve=reserve, option="blob.storage.min-free")

    @asynccontextmanager
    async def _room_for(self, path: str, size: int) -> AsyncIterator[None]:
        """Count an artifact while it is stored; raises StorageFull if there is no room for it."""
        if await self._storage.exists(path):
            # A client repeats a submission whose answer it has not got.
            yield
            return
        await self.check_room(size)
        self._being_stored += size
        try:
            limit = self._options.storage_size_limit
            if limit:
                total = await self._storage.total_size(FOLDER) + self._being_stored - size
                check_total_size(
                    total,
                    size,
                    limit=limit,
                    option="blob.storage.size-limit",
                    remedy="cancel jobs or wait for them to end, or raise the limit",
                )
            yield
        finally:
            self._being_stored -= size

    async def missing(self, job_id: JobId, keys: Iterable[BlobKey]) -> tuple[BlobKey, ...]:
        """Keys of which the job has no content yet; without it the job cannot be accepted."""
        return tuple([key for key in keys if not await self._storage.exists(path_of(job_id, key))])

    async def delete_job(self, job_id: JobId) -> None:
        """Remove all artifacts of a job; a failure is raised, so that the clean-up is retried."""
        await self._storage.delete_tree(folder_of(job_id))

    async def _chunks_of(self, source: Path) -> AsyncIterator[bytes]:
        with source.open("rb") as file:
            while chunk := await self._off_loop(file.read, READ_BYTES):
                yield chunk

"""Copy files between storages, with checksums."""

import asyncio
import hashlib
import secrets
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from stoker.aio.threads import LimitedThreads
from stoker.savepoints.manifest import SavedFile
from stoker.storage.contract import Storage, no_such_file, storage_unavailable

T = TypeVar("T")
R = TypeVar("R")

CONCURRENCY = 8
LARGEST_IN_MEMORY = 4 * 1024 * 1024
"""Files up to this size, in bytes, are copied through memory."""
_HASHING = LimitedThreads("hash-savepoint", limit=CONCURRENCY)
"""The file may be in a place that hangs."""


async def copy_file(source: Storage, path: str, target: Storage, to: str) -> SavedFile:
    """Copy durably; the checksum is that of the content that was read."""
    size = await source.size(path)
    if size <= LARGEST_IN_MEMORY:
        content = await source.read(path)
        await target.write(to, content)
        return SavedFile(path=to, size=len(content), sha256=hashlib.sha256(content).hexdigest())
    async with as_local_file(source, path) as local:
        sha256 = await _HASHING.run(_sha256_of, local)
        await target.upload(local, to)
        return SavedFile(path=to, size=size, sha256=sha256)


async def checksum(storage: Storage, path: str) -> SavedFile:
    size = await storage.size(path)
    if size <= LARGEST_IN_MEMORY:
        content = await storage.read(path)
        return SavedFile(path=path, size=size, sha256=hashlib.sha256(content).hexdigest())
    async with as_local_file(storage, path) as local:
        return SavedFile(path=path, size=size, sha256=await _HASHING.run(_sha256_of, local))


async def for_all(items: Iterable[T], work: Callable[[T], Awaitable[R]]) -> list[R]:
    """Run `work` on a few items at a time; results in order. The first failure cancels the rest."""
    waiting = list(items)
    results: list[R | None] = [None] * len(waiting)
    numbers = iter(range(len(waiting)))

    async def process_next() -> None:
        for number in numbers:
            results[number] = await work(waiting[number])

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(CONCURRENCY, len(waiting))):
                group.create_task(process_next())
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return results  # type: ignore[return-value]


@asynccontextmanager
async def as_local_file(storage: Storage, path: str) -> AsyncIterator[Path]:
    """The file itself if it is on this machine, otherwise a temporary copy."""
    parts = urlsplit(storage.url(path))
    if parts.scheme == "file":
        try:
            yield Path(unquote(parts.path))
        except FileNotFoundError as error:
            raise no_such_file(storage.url(path)) from error
        except OSError as error:
            raise storage_unavailable("read", storage.url(path), error) from error
        return
    with tempfile.TemporaryDirectory(prefix="stoker-copy-") as folder:
        local = Path(folder) / secrets.token_hex(8)
        await storage.download(path, local)
        yield local


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

"""Artifacts on the local disk: received, hashed, checked and cleaned up.

A file counts as an artifact only after its hash has been checked: a transfer may break off, and a
disk may return other bytes than it was given.
"""

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

from stoker.blob.keys import described
from stoker.core.errors import (
    BlobNotFound,
    CorruptContent,
    NotFound,
    StokerError,
    StorageUnavailable,
    TooLarge,
)
from stoker.core.ids import BlobKey, JobId
from stoker.storage.contract import storage_unavailable

T = TypeVar("T")


class OffLoop(Protocol):
    """Runs blocking work off the loop: `asyncio.to_thread`, or `inline` on virtual time."""

    def __call__(self, work: Callable[..., T], /, *args: Any) -> Awaitable[T]: ...


async def inline(work: Callable[..., T], /, *args: Any) -> T:
    """Run the work on the loop, for simulations, which have no threads."""
    return work(*args)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


async def check_digest(path: Path, expected: str, what: str, off_loop: OffLoop) -> None:
    """CorruptContent when the content of the file does not match its key."""
    try:
        actual = await off_loop(sha256_of, path)
    except OSError as error:
        raise storage_unavailable("read", path.as_uri(), error) from error
    if actual != expected:
        raise CorruptContent(
            f"{what} is corrupt: its content has SHA-256 {actual}; upload it again",
            expected=expected,
            actual=actual,
        )


def make_empty_folder(folder: Path) -> None:
    """Create the folder, check that it is writable, and remove what an earlier process left."""
    folder.mkdir(parents=True, exist_ok=True)
    remove_files_below(folder)
    probe = folder / ".writable"
    probe.touch()
    probe.unlink()


def remove_files_below(folder: Path) -> None:
    """Remove what is there: the thread of a cancelled transfer may still be writing."""
    for child in folder.iterdir() if folder.is_dir() else ():
        if child.is_dir():
            shutil.rmtree(child, ignore_errors=True)
        else:
            child.unlink(missing_ok=True)


@contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    try:
        folder = Path(tempfile.mkdtemp(dir=parent, prefix="transfer-"))
    except OSError as error:
        raise storage_unavailable("write into", parent.as_uri(), error) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def final_failure(
    error: StokerError, job_id: JobId, key: BlobKey, name: str, tries: int
) -> StokerError:
    """The error to raise after the last try, with the name of the artifact."""
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


@dataclass(frozen=True, kw_only=True)
class Received:
    path: Path
    sha256: str
    size: int


@asynccontextmanager
async def received(
    chunks: AsyncIterable[bytes], folder: Path, *, limit: int, what: str, off_loop: OffLoop
) -> AsyncIterator[Received]:
    """The complete upload; its file is removed at exit, also when the upload breaks off.

    Raises TooLarge as soon as the limit is exceeded, and StorageUnavailable when the disk is full.
    """
    try:
        file = tempfile.NamedTemporaryFile(prefix="incoming-", dir=folder, delete=False)  # noqa: SIM115
    except OSError as error:
        raise storage_unavailable("receive into", folder.as_uri(), error) from error
    path = Path(file.name)
    try:
        yield await _receive(chunks, file, limit, what, off_loop)
    finally:
        # On the loop, because it must also happen while the task is being cancelled. A thread that
        # still writes has the file open and cannot bring it back.
        path.unlink(missing_ok=True)  # noqa: ASYNC240
        with contextlib.suppress(OSError):
            file.close()


async def _receive(
    chunks: AsyncIterable[bytes], file: IO[bytes], limit: int, what: str, off_loop: OffLoop
) -> Received:
    digest = hashlib.sha256()
    size = 0

    def append(chunk: bytes) -> None:
        digest.update(chunk)
        file.write(chunk)

    path = Path(file.name)
    async for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise too_large(what, limit)
        await _write(path, partial(append, chunk), off_loop)
    await _write(path, file.close, off_loop)
    return Received(path=path, sha256=digest.hexdigest(), size=size)


def too_large(what: str, limit: int) -> TooLarge:
    return TooLarge(
        f"{what} is larger than the {limit} bytes that blob.upload.size-limit allows; "
        "make it smaller, put it where the job can read it, or raise the limit",
        limit=limit,
    )


async def _write(path: Path, work: Callable[[], None], off_loop: OffLoop) -> None:
    try:
        await off_loop(work)
    except OSError as error:
        raise storage_unavailable("receive into", path.as_uri(), error) from error

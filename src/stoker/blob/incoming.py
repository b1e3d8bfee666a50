"""An incoming upload: hashed and counted while it is written to a temporary file."""

import contextlib
import hashlib
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from stoker.blob.transfer import OffLoop
from stoker.core.errors import TooLarge
from stoker.storage.failures import storage_unavailable


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

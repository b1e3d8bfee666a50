"""Bytes on the local disk: hashed, checked, moved."""

import hashlib
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from stoker.core.errors import CorruptContent
from stoker.storage.failures import storage_unavailable

T = TypeVar("T")


class OffLoop(Protocol):
    """Runs blocking work beside the loop: `asyncio.to_thread`; `inline` on virtual time."""

    def __call__(self, work: Callable[..., T], /, *args: Any) -> Awaitable[T]: ...


async def inline(work: Callable[..., T], /, *args: Any) -> T:
    """For simulations, which know no threads."""
    return work(*args)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


async def check_digest(path: Path, expected: str, what: str, off_loop: OffLoop) -> None:
    """CorruptContent when the file does not hold the content that its key promises."""
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
    """The folder is there, writable and without the leftovers of an earlier process."""
    folder.mkdir(parents=True, exist_ok=True)
    remove_files_below(folder)
    probe = folder / ".writable"
    probe.touch()
    probe.unlink()


def remove_files_below(folder: Path) -> None:
    """As far as possible: a transfer that was just cancelled may still be writing in a thread."""
    for child in folder.iterdir():
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

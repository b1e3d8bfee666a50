"""The storage contract: whole files of any size, in one place that all processes share.

Records at the coordinator point to files here, so a file must never be seen half written, and must
be durable before anything points to it. Creation decides between competitors: of several that
create one path, exactly one succeeds.
"""

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from stoker.core.errors import (
    InvalidInput,
    NotFound,
    StorageFull,
    StorageUnavailable,
    TooLarge,
)


class Storage(Protocol):
    """Files have relative paths such as `jobs/3f…/graph`; folders are implicit.

    A file is seen whole or not at all, whatever crashes in between, and is durable when the
    writing call returns. Every method may raise StorageUnavailable, which names the path and the
    reason; on a remote store, a write that raised it may still have happened. A path that
    is absolute, empty or leads upwards is refused with InvalidInput, and so is a write below a file
    where folders are real.
    """

    async def write(self, path: str, content: bytes) -> None:
        """Write the file, whether it existed before or not."""
        ...

    async def create(self, path: str, content: bytes) -> None:
        """Like `write`, but raise KeyExists and change nothing when the file exists.

        Of several that create one path at the same time, exactly one succeeds.
        """
        ...

    async def read(self, path: str, *, limit: int | None = None) -> bytes:
        """The content; NotFound when there is no such file.

        TooLarge when it has more bytes than `limit`, and InvalidInput when it is no regular file:
        a pipe or a device may have no end.
        """
        ...

    async def exists(self, path: str) -> bool: ...

    async def size(self, path: str) -> int:
        """Size in bytes; raise NotFound when there is no such file."""
        ...

    async def has_files(self, prefix: str) -> bool:
        """Whether the folder holds a file, at any depth. Stops at the first one."""
        ...

    async def total_size(self, prefix: str) -> int:
        """Bytes of all files in the folder, at any depth."""
        ...

    async def free_bytes(self) -> int | None:
        """Bytes that this user may still write; None where nobody can tell."""
        ...

    async def list(self, prefix: str) -> list[str]:
        """Paths of all files in the folder, at any depth, sorted. `""` is the whole storage."""
        ...

    async def modified(self, prefix: str) -> dict[str, float]:
        """Like `list`, with the time of each file's last write, in seconds since 1970.

        The storage's clock may differ a little from the clock of this machine.
        """
        ...

    async def delete(self, path: str) -> None:
        """Delete the file. Idempotent."""
        ...

    async def delete_tree(self, prefix: str) -> None:
        """Delete the folder and all files in it. Idempotent, not atomic."""
        ...

    async def upload(self, source: Path, path: str) -> None:
        """Like `write`, from a local file, without loading it into memory."""
        ...

    async def adopt(self, source: Path, path: str) -> None:
        """Like `upload`; the source may be gone afterwards, since a rename saves the copy."""
        ...

    async def download(self, path: str, target: Path) -> None:
        """Copy the content to a local file, whole or not at all; NotFound as with `read`."""
        ...

    async def pin(self, targets: Mapping[str, str]) -> None:
        """Copy files inside the storage; `targets` maps the path of each source to the new path.

        Each source must be a file that nobody overwrites: a copy may share its bytes, which makes
        it cheap. The copies are not durable. NotFound when a source is gone; some copies may have
        been made by then.
        """
        ...

    def url(self, path: str) -> str:
        """The location of the file, for people and other programs."""
        ...


def checked_path(path: str) -> str:
    """The path, if it names a file inside the storage."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise InvalidInput(
            f"{path!r} is not a path inside the storage; use a relative one without '..'", path=path
        )
    return path


def checked_folder(prefix: str) -> str:
    """The folder, where the empty text means the whole storage."""
    return checked_path(prefix) if prefix else prefix


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_full(error: OSError) -> bool:
    """Whether the disk has no space left, or the user no quota."""
    return error.errno in _FULL


def no_such_file(url: str) -> NotFound:
    return NotFound(f"no file {url} in the storage", path=url)


def too_large(url: str, limit: int) -> TooLarge:
    return TooLarge(f"{url} has more than {limit} bytes, which is the limit for it", path=url)


def storage_unavailable(doing: str, url: str, error: OSError) -> StorageUnavailable:
    reason = error.strerror or str(error) or type(error).__name__
    facts = {"path": url, "reason": reason, "errno": error.errno}
    if is_full(error):
        advice = "the disk is full; free some space, then try again"
        return StorageFull(f"cannot {doing} {url}: {reason}; {advice}", **facts)
    advice = "check that the storage directory is mounted and writable, then try again"
    return StorageUnavailable(f"cannot {doing} {url}: {reason}; {advice}", **facts)

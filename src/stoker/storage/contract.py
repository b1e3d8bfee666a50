"""The storage contract: whole files of any size under one directory that all processes share."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from stoker.core.errors import InvalidInput


class Storage(Protocol):
    """Files have relative paths such as `jobs/3f…/graph`; folders come and go by themselves.

    A file is seen whole or not at all, whatever dies in between, and is durable when the writing
    call returns. Every method may raise StorageUnavailable, which names the path and the reason;
    a write that raised it may still have happened on a remote store. A path that is absolute,
    empty or leads upwards is refused with InvalidInput.
    """

    async def write(self, path: str, content: bytes) -> None:
        """The file has this content, whether it was there before or not."""
        ...

    async def create(self, path: str, content: bytes) -> None:
        """As `write`, but raises KeyExists and changes nothing when the file is there.

        Of several that create one path at the same time, exactly one succeeds.
        """
        ...

    async def read(self, path: str) -> bytes:
        """The content; NotFound when there is no such file."""
        ...

    async def exists(self, path: str) -> bool: ...

    async def size(self, path: str) -> int:
        """In bytes; NotFound when there is no such file."""
        ...

    async def list(self, prefix: str) -> list[str]:
        """Paths of all files in the folder, at any depth, sorted. `""` is the whole storage."""
        ...

    async def modified(self, prefix: str) -> dict[str, float]:
        """As `list`, with the moment of each file's last write, in seconds since 1970.

        By the storage's own clock, which may differ a little from that of this machine.
        """
        ...

    async def delete(self, path: str) -> None:
        """The file is gone; that it was absent is fine."""
        ...

    async def delete_tree(self, prefix: str) -> None:
        """The folder and all files in it are gone; that it was absent is fine. Not atomic."""
        ...

    async def upload(self, source: Path, path: str) -> None:
        """As `write`, from a local file, without holding it in memory."""
        ...

    async def adopt(self, source: Path, path: str) -> None:
        """As `upload`; the source may be gone afterwards, since a rename saves the copy."""
        ...

    async def download(self, path: str, target: Path) -> None:
        """The local file has the content, whole or not at all; NotFound as with `read`."""
        ...

    async def pin(self, targets: Mapping[str, str]) -> None:
        """Each target has what its source, the key, has now, whatever becomes of the source.

        Made for files that are written once: cheap where the store can share their bytes. Not
        durable. NotFound when a source is gone; some targets may have been made then.
        """
        ...

    def url(self, path: str) -> str:
        """Where the file is, for people and for other programs."""
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

"""Small files that are written whole or not at all."""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_ROOT = 0


def write_atomically(
    path: Path,
    content: bytes,
    *,
    mode: int = 0o666,
    sync: bool = False,
    many_writers: bool = False,
    keep_owner: bool = False,
    before_rename: Callable[[], None] | None = None,
) -> None:
    """Write a temporary file beside `path` and rename it: readers see the old content or the new.

    The temporary file has a fixed name, so that one left by a crash is replaced by the next write.
    With `many_writers`, each process has its own, and the last rename wins.
    With `keep_owner`, an existing file keeps its owner, group and permissions, and what root makes
    in the directory of another user belongs to that user.
    With `sync`, the content is on the disk before the rename, so that a crash of the machine cannot
    leave an empty file. `mode` is subject to the umask. `before_rename` is a place for failpoints.
    Raises OSError, and then leaves no temporary file behind.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid() if many_writers else 'new'}")
    # A file that a crash has left may have another mode.
    with suppress(FileNotFoundError):
        temporary.unlink()
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            if keep_owner:
                _copy_owner(path, descriptor)
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        if before_rename is not None:
            before_rename()
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _copy_owner(path: Path, descriptor: int) -> None:
    """Give the open file owner, group and permissions of the other one, if that exists."""
    try:
        kept = path.stat()
    except FileNotFoundError:
        give_to_owner_of_directory(descriptor, path.parent)
        return
    own = os.fstat(descriptor)
    if (kept.st_uid, kept.st_gid) != (own.st_uid, own.st_gid):
        os.fchown(descriptor, kept.st_uid, kept.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(kept.st_mode))


def give_to_owner_of_directory(descriptor: int, directory: Path) -> None:
    """Let the user for whom root makes a file use it.

    That is the owner of its directory; where root owns that, its group may read the file.
    """
    own, place = os.fstat(descriptor), directory.stat()
    if own.st_uid != _ROOT or os.geteuid() != _ROOT:
        return
    if (place.st_uid, place.st_gid) == (_ROOT, _ROOT):
        return
    os.fchown(descriptor, place.st_uid, place.st_gid)
    if place.st_uid == _ROOT:
        os.fchmod(descriptor, stat.S_IMODE(own.st_mode) | stat.S_IRGRP)

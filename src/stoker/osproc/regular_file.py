"""Opens files that code of a job may have replaced.

In a directory to which such code can write, a name may have become a pipe, which blocks whoever
opens it, a device, which never ends, or a link to a file of somebody else.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


class NotRegular(OSError):
    """There is something else than a regular file."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EINVAL, "not a regular file", str(path))


class FileTooLarge(OSError):
    def __init__(self, path: Path, most: int) -> None:
        super().__init__(errno.EFBIG, f"larger than {most} bytes", str(path))


def open_regular(path: Path) -> BinaryIO:
    """Open for reading, at once; raise NotRegular for a link, pipe, device or directory."""
    return os.fdopen(_open(path, os.O_RDONLY), "rb")


def open_regular_to_append(path: Path, mode: int) -> int:
    """Open or create for appending, at once; returns the descriptor, or raises NotRegular."""
    return _open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, mode)


def _open(path: Path, flags: int, mode: int = 0o600) -> int:
    try:
        # Without somebody at its other end, opening a pipe would wait.
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NotRegular(path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegular(path)
    return descriptor


def read_regular(path: Path, most: int) -> bytes:
    """Read a whole file; raise NotRegular, or FileTooLarge for one of more than `most` bytes."""
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise FileTooLarge(path, most)
    return data

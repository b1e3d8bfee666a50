"""A plain name for a directory whose own name other programs would misread.

Spark splits its local directories at commas and Java options at spaces, Java's properties give a
meaning to backslashes, and Log4j takes the name of its file for a URL. Each has escapes of its own,
and for the comma there is none. Behind a symbolic link with a plain name, none of them matters.

The name of the link is derived from that of the directory: the successor of a killed process uses
the link again that the killed one left.
"""

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PLAIN = re.compile(r"[A-Za-z0-9/._-]+")
_USUAL_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")


@contextmanager
def plain_name_of(directory: Path) -> Iterator[Path]:
    """The directory itself if its name is plain, otherwise a link that is removed at the end.

    Raises OSError if no link can be made.
    """
    if _PLAIN.fullmatch(str(directory)):
        yield directory
        return
    link = _link_to(directory)
    try:
        yield link
    finally:
        with suppress(OSError):
            link.unlink()


def _link_to(directory: Path) -> Path:
    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    folders = dict.fromkeys([tempfile.gettempdir(), *_USUAL_FOLDERS])
    for folder in filter(_is_safe, filter(_PLAIN.fullmatch, folders)):
        link = Path(folder) / f"stoker-{os.getuid()}-{digest}"
        with suppress(OSError):
            if not _is_own_link(link, directory):
                link.symlink_to(directory)
            return link
    raise OSError(
        f"no link to it can be made in {', '.join(folders)}, and its name has characters that "
        "Spark misreads"
    )


def _is_safe(folder: str) -> bool:
    """Whether no other user can replace a link there."""
    try:
        mode = os.stat(folder).st_mode
    except OSError:
        return False
    return not mode & (stat.S_IWGRP | stat.S_IWOTH) or bool(mode & stat.S_ISVTX)


def _is_own_link(link: Path, directory: Path) -> bool:
    """Whether the link is there and safe to follow: another user may have made one of its name."""
    return (
        link.is_symlink()
        and link.lstat().st_uid == os.getuid()
        and os.readlink(link) == str(directory)
    )

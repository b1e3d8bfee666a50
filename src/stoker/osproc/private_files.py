"""Files and directories for their owner alone, whatever umask the user has.

Stoker's directories hold job graphs, results, logs and secrets, and whoever can write there
commands the cluster. So masters and task executors work with a umask of 077 from their start.

What user code writes is the user's business: runners, drivers and Spark get the user's umask back.
What Stoker itself writes in these processes it makes private explicitly, and so each directory that
it hands to Spark or to user code. Their own files are protected by that directory.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path

_PRIVATE_UMASK = 0o077
PRIVATE_DIRECTORY = 0o700
_PRIVATE_FILE = 0o600


@contextmanager
def private_umask() -> Iterator[int]:
    """Make all new files of this process private; yields the umask of before."""
    before = os.umask(_PRIVATE_UMASK)
    try:
        yield before
    finally:
        os.umask(before)


def private_opener(path: str, flags: int) -> int:
    """For `open(opener=…)`: a new file is for its owner alone."""
    return os.open(path, flags, _PRIVATE_FILE)


def with_umask(umask: str | None, *command: str) -> list[str]:
    """The command line that runs `command` with this umask, in the same process."""
    if umask is None:
        return list(command)
    return ["/bin/sh", "-c", 'umask "$0" && exec "$@"', umask, *command]


class Exposure(Enum):
    """What other users of the machine can do with a file or directory."""

    NONE = auto()
    READ = auto()
    WRITE = auto()


def exposure_of(mode: int) -> Exposure:
    """By the permissions of others. Those of the group are left to whoever chose the group."""
    if mode & stat.S_IWOTH:
        return Exposure.WRITE
    # Permission to enter a directory is enough to read files whose names are known.
    return Exposure.READ if mode & (stat.S_IROTH | stat.S_IXOTH) else Exposure.NONE


def make_private_directory(directory: Path) -> None:
    """Make the directory and those above it, as far as they are missing. Raises OSError."""
    missing = [each for each in directory.parents if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
    directory.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)


def claim_directory(directory: Path, *, is_ours: bool) -> Exposure:
    """Make the directory private; returns what others can still do there. Raises OSError.

    A directory that is missing is made, and so are those above it. One that exists is changed if
    it belongs to this user and is empty, or if only Stoker uses it (`is_ours`): anything else may
    have been opened to others on purpose.
    """
    make_private_directory(directory)
    found = directory.stat()
    exposure = exposure_of(found.st_mode)
    if exposure is Exposure.NONE or found.st_uid != os.geteuid():
        return exposure
    if not is_ours and any(directory.iterdir()):
        return exposure
    directory.chmod(PRIVATE_DIRECTORY)
    return Exposure.NONE

"""Refuses files with secrets that other users of the machine can read or replace."""

import os
from pathlib import Path

from stoker.core.errors import InvalidOption
from stoker.osproc.private_files import Exposure, exposure_of

_ROOT = 0


def check_private(path: Path, status: os.stat_result, option: str) -> None:
    """Raises InvalidOption if others may read or write the file, or if it is theirs."""
    if exposure_of(status.st_mode) is not Exposure.NONE:
        raise InvalidOption(
            f"other users of this machine can use {path} ({option}); take their permissions away: "
            f"chmod o= {path}",
            path=str(path),
        )
    if status.st_uid not in (os.geteuid(), _ROOT):
        raise InvalidOption(
            f"{path} ({option}) belongs to another user, who could replace it; make it a file of "
            "the user that runs this process, or of root",
            path=str(path),
        )


def check_private_file(path: Path, option: str) -> None:
    """The same for a file that is opened later; does nothing if it is missing."""
    try:
        status = path.stat()
    except OSError:
        # Whoever reads the file says why it cannot be read.
        return
    check_private(path, status, option)

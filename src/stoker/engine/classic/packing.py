"""Pack an installed environment into one file, for executors on other machines."""

import os
import tarfile
import tempfile
from pathlib import Path


def pack(environment: Path) -> Path:
    """Return the archive beside the environment, made on first use. Environments never change."""
    archive = _archive_of(environment)
    if archive.exists():
        return archive
    descriptor, aside = tempfile.mkstemp(
        dir=environment.parent, prefix=f"{environment.name}.", suffix=".tar.partial"
    )
    try:
        # Not compressed: it is sent to each executor only once.
        with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w") as tar:
            # Without a leading "./", which Spark takes for an attempt to escape the directory.
            for each in sorted(environment.iterdir()):
                tar.add(each, arcname=each.name)
        Path(aside).replace(archive)
    finally:
        Path(aside).unlink(missing_ok=True)
    return archive


def remove_packed(environment: Path) -> None:
    """Remove the archive, and unfinished ones of processes that died."""
    for file in environment.parent.glob(f"{environment.name}.*tar*"):
        file.unlink(missing_ok=True)


def _archive_of(environment: Path) -> Path:
    return environment.with_name(f"{environment.name}.tar")

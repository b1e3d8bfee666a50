"""An installed environment as one file, for executors on other machines; made once."""

import os
import tarfile
import tempfile
from pathlib import Path


def packed(environment: Path) -> Path:
    """Beside the environment, which never changes; whoever comes second finds it."""
    archive = _archive_of(environment)
    if archive.exists():
        return archive
    descriptor, aside = tempfile.mkstemp(
        dir=environment.parent, prefix=f"{environment.name}.", suffix=".tar.partial"
    )
    try:
        # Not compressed: most of it is wheels' content, and it travels once to each executor.
        with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w") as tar:
            # Each by its bare name: Spark's unpacking takes "./" for an escape.
            for each in sorted(environment.iterdir()):
                tar.add(each, arcname=each.name)
        Path(aside).replace(archive)
    finally:
        Path(aside).unlink(missing_ok=True)
    return archive


def forget_packed(environment: Path) -> None:
    """With what somebody who died has left of it."""
    for file in environment.parent.glob(f"{environment.name}.*tar*"):
        file.unlink(missing_ok=True)


def _archive_of(environment: Path) -> Path:
    return environment.with_name(f"{environment.name}.tar")

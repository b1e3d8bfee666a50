"""Manifests of batch results: which files were written, and the decision to publish them.

A result counts only if every file of it is there. The manifest names them with their sizes, so a
reader can tell a complete result from a part of one.
"""

from stoker.core.ids import AttemptId
from stoker.core.values import Value


class ResultFile(Value):
    path: str
    """Path relative to the directory of the result, with `/` as separator."""
    size: int
    checksum: str | None = None
    """CRC-32 in hexadecimal; None for the output of a sink, which no region reads."""
    rows: int | None = None


class Manifest(Value):
    """The files of a result. Recorded once: from then on the result of this attempt counts."""

    attempt: AttemptId
    directory: str
    """URL of the directory to which the attempt wrote."""
    files: tuple[ResultFile, ...]

    @property
    def rows(self) -> int | None:
        counts = [file.rows for file in self.files if file.rows is not None]
        return sum(counts) if counts else None

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


class Publication(Value):
    """The decision to move a sink's staged output to its target."""

    manifest: Manifest
    target: str
    """URL of the directory from which readers read the output."""
    replaces: tuple[str, ...] = ()
    """Files of the target that the output replaces, relative to the target."""

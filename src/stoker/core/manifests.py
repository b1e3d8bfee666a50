"""What was written, file by file: the proof that a result is whole, and the plan to publish it."""

from stoker.core.ids import AttemptId
from stoker.core.values import Value


class ResultFile(Value):
    path: str
    """Relative to the directory of the result, with `/` between its parts."""
    size: int
    checksum: str | None = None
    """CRC-32 in hexadecimal, where the content is read back."""
    rows: int | None = None


class Manifest(Value):
    """Recorded once: from then on this attempt's result is the one that counts."""

    attempt: AttemptId
    directory: str
    """URL of the directory in which the attempt wrote."""
    files: tuple[ResultFile, ...]

    @property
    def rows(self) -> int | None:
        counts = [file.rows for file in self.files if file.rows is not None]
        return sum(counts) if counts else None

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


class Publication(Value):
    """The decision that a sink's staged output is to stand at its target."""

    manifest: Manifest
    target: str
    """URL of the directory where readers look for the output."""
    replaces: tuple[str, ...] = ()
    """Files of the target that the output takes the place of, relative to it."""

"""The output of a job that returned to earlier savepoints, read from several directories."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet

from chaos.numbered_lines import Rows
from file_sink import committed_files


@dataclass(frozen=True, kw_only=True)
class Segment:
    """The output in one directory, up to the batch in `limits` for each sink; None: all batches."""

    directory: Path
    limits: Mapping[str, int] | None = None

    def files(self, sink: str) -> set[Path]:
        last_batch = None if self.limits is None else self.limits.get(sink, -1)
        return committed_files(self.directory / sink, last_batch=last_batch)


@dataclass(frozen=True, kw_only=True)
class JobOutput:
    """The output of a job that returned to earlier savepoints.

    A job that returns to a savepoint writes to another directory. Of the previous directory only
    the batches that the savepoint contains count.
    """

    segments: tuple[Segment, ...]

    @classmethod
    def starting_in(cls, directory: Path) -> "JobOutput":
        return cls(segments=(Segment(directory=directory),))

    @property
    def directory(self) -> Path:
        """The directory to which the job writes now."""
        return self.segments[-1].directory

    def rolled_back(self, batches: Mapping[str, int], directory: Path) -> "JobOutput":
        cut = replace(self.segments[-1], limits=batches)
        return JobOutput(segments=(*self.segments[:-1], cut, Segment(directory=directory)))

    def rows(self, sink: str) -> Rows:
        files = [path for segment in self.segments for path in segment.files(sink)]
        found: Rows = Counter()
        for path in files:
            table = pyarrow.parquet.read_table(path)
            found.update(zip(table["key"].to_pylist(), table["rows"].to_pylist(), strict=True))
        return found

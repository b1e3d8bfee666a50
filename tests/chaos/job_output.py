"""The output of a job that returned to earlier savepoints, read from several directories."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow.parquet

from chaos.numbered_lines import Rows


@dataclass(frozen=True, kw_only=True)
class Segment:
    """The output in one directory, up to the batch in `limits` for each sink; None: all batches."""

    directory: Path
    limits: Mapping[str, int] | None = None


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
        files = [path for segment in self.segments for path in _files(segment, sink)]
        found: Rows = Counter()
        for path in files:
            table = pyarrow.parquet.read_table(path)
            found.update(zip(table["key"].to_pylist(), table["rows"].to_pylist(), strict=True))
        return found


def _files(segment: Segment, sink: str) -> set[Path]:
    """Files in the log of the sink; other files are leftovers of interrupted batches."""
    log = segment.directory / sink / "_spark_metadata"
    limit = None if segment.limits is None else segment.limits.get(sink, -1)
    urls: set[str] = set()
    for entry in log.glob("[0-9]*"):
        # A file that ends with .compact repeats the entries before it, and none of the later ones.
        if limit is None or int(entry.name.partition(".")[0]) <= limit:
            lines = entry.read_text().splitlines()[1:]
            urls |= {json.loads(line)["path"] for line in lines}
    return {Path(unquote(urlsplit(url).path)) for url in urls}

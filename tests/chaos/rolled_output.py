"""The output of a job across returns to earlier savepoints. Values only."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow.parquet

from chaos.numbered_lines import Rows


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A directory of sinks, up to a batch of each sink; without limits, all their output."""

    directory: Path
    limits: Mapping[str, int] | None = None


@dataclass(frozen=True, kw_only=True)
class RolledOutput:
    """The output of a job, across returns to earlier savepoints.

    A job that returns to a savepoint writes to another directory. Of the previous directory only
    the batches that the savepoint contains count.
    """

    pieces: tuple[Piece, ...]

    @classmethod
    def beginning(cls, directory: Path) -> "RolledOutput":
        return cls(pieces=(Piece(directory=directory),))

    @property
    def directory(self) -> Path:
        """The directory to which the job writes now."""
        return self.pieces[-1].directory

    def back_at(self, batches: Mapping[str, int], directory: Path) -> "RolledOutput":
        cut = replace(self.pieces[-1], limits=batches)
        return RolledOutput(pieces=(*self.pieces[:-1], cut, Piece(directory=directory)))

    def rows(self, sink: str) -> Rows:
        files = [path for piece in self.pieces for path in _files(piece, sink)]
        found: Rows = Counter()
        for path in files:
            table = pyarrow.parquet.read_table(path)
            found.update(zip(table["key"].to_pylist(), table["rows"].to_pylist(), strict=True))
        return found


def _files(piece: Piece, sink: str) -> set[Path]:
    """Files in the log of the sink; other files are leftovers of interrupted batches."""
    log = piece.directory / sink / "_spark_metadata"
    limit = None if piece.limits is None else piece.limits.get(sink, -1)
    urls: set[str] = set()
    for entry in log.glob("[0-9]*"):
        # One that ends with .compact repeats what was before it, and nothing that comes later.
        if limit is None or int(entry.name.partition(".")[0]) <= limit:
            lines = entry.read_text().splitlines()[1:]
            urls |= {json.loads(line)["path"] for line in lines}
    return {Path(unquote(urlsplit(url).path)) for url in urls}

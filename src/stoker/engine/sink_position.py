"""Whether the files of a streaming sink are where its checkpoint says they are.

Spark's file sink keeps a log of the batches that it has written, and passes over those that are
in it. A checkpoint that is behind (an older savepoint, or the first start of a job in a used
directory) would lose everything until it has caught up, without a word. A sink that is behind (a
savepoint, and another directory for what comes after it) has no log of the batches before: Spark
fails as soon as it wants to compact the log or to read the output. It is given an empty one.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from stoker.core.graph import FormatWrite, Sink
from stoker.engine.failures import CannotRun
from stoker.engine.places import Place, local_path

LOG = "_spark_metadata"
FILE_FORMATS = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
"""Those whose sinks keep such a log."""
_EMPTY = b"v1"
"""A batch that wrote no file, in that log."""
_COMPACTED = 10
"""Spark goes on with any interval of which one more than the number of a compacted batch is a
multiple; this is its default."""


def check_sink_position(sink: Sink, checkpoint: Place) -> None:
    """Where both are on this machine's file system; elsewhere it is not known here."""
    if not isinstance(sink.write, FormatWrite) or sink.write.path is None:
        return
    target = local_path(sink.write.path)
    if target is None or checkpoint.local is None:
        return
    written = last_number(target / LOG)
    committed = last_number(checkpoint.local / "commits")
    if written < 0 <= committed and sink.write.format in FILE_FORMATS:
        # Where that cannot be written Spark cannot write either, and says so.
        with contextlib.suppress(OSError):
            _begin_log(target, committed)
    # One more may be there: it was written, and its commit was not.
    if written > committed + 1:
        raise ahead(sink.name, sink.write.path, f"up to {written}", committed)


def ahead(sink: str, path: str, batches: str, committed: int) -> CannotRun:
    known = "has no batch yet" if committed < 0 else f"is at batch {committed}"
    return CannotRun(
        "SinkIsAhead",
        f"{path} has the batches {batches} of an earlier run, and {sink} {known}: Spark would "
        "leave out what it takes for written already; write into another directory, or start "
        "from the savepoint or checkpoint that belongs to it",
    )


def last_number(folder: Path) -> int:
    return last_of(path.name for path in folder.glob("[0-9]*"))


def last_of(names: Iterable[str]) -> int:
    """The highest number of a batch among the files of a log; -1 when there is none."""
    numbers = [name.removesuffix(".compact") for name in names]
    return max((int(number) for number in numbers if number.isdecimal()), default=-1)


def _begin_log(target: Path, committed: int) -> None:
    """As if all batches up to this one had written nothing here; whole or not at all."""
    target.mkdir(parents=True, exist_ok=True)
    compacted = (committed + 1) // _COMPACTED * _COMPACTED - 1
    unfinished = Path(tempfile.mkdtemp(prefix=".stoker-log-", dir=target))
    try:
        if compacted >= 0:
            (unfinished / f"{compacted}.compact").write_bytes(_EMPTY)
        for number in range(compacted + 1, committed + 1):
            (unfinished / str(number)).write_bytes(_EMPTY)
        unfinished.chmod(0o755)
        os.replace(unfinished, target / LOG)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)

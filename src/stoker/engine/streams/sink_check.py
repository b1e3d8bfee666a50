"""Whether the files of a streaming sink are where its checkpoint says they are.

Spark's file sink keeps a log of the batches that it has written, and passes over those that are
in it. A checkpoint that is behind (an older savepoint, or the first start of a job in a used
directory) would lose everything until it has caught up, without a word. A sink that is behind (a
savepoint, and another directory for what comes after it) has no log of the batches before: Spark
fails as soon as it wants to compact the log or to read the output. It is given an empty one; one
that lacks only the last batches, as after a division of state, is given empty ones.
"""

import contextlib

from stoker.core.graph import FormatWrite, Sink
from stoker.engine.failures import CannotRun
from stoker.engine.region.locations import Place, local_path
from stoker.engine.streams.sink_log import LOG, begin_log, fill_log, last_number

FILE_FORMATS = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
"""Those whose sinks keep such a log."""


def check_sink_position(sink: Sink, checkpoint: Place) -> None:
    """Where both are on this machine's file system; elsewhere it is not known here."""
    if not isinstance(sink.write, FormatWrite) or sink.write.path is None:
        return
    target = local_path(sink.write.path)
    if target is None or checkpoint.local is None:
        return
    written = last_number(target / LOG)
    committed = last_number(checkpoint.local / "commits")
    if written < committed and sink.write.format in FILE_FORMATS:
        # Where that cannot be written Spark cannot write either, and says so.
        with contextlib.suppress(OSError):
            if written < 0:
                begin_log(target, committed)
            else:
                fill_log(target / LOG, committed)
    # One more may be there: it was planned and written, and its commit was not. Planned anew it
    # might hold more, which Spark would take for written.
    if written > max(committed, last_number(checkpoint.local / "offsets")):
        raise ahead(sink.name, sink.write.path, f"up to {written}", committed)


def ahead(sink: str, path: str, batches: str, committed: int) -> CannotRun:
    known = "has no batch yet" if committed < 0 else f"is at batch {committed}"
    return CannotRun(
        "SinkIsAhead",
        f"{path} has the batches {batches} of an earlier run, and {sink} {known}: Spark would "
        "leave out what it takes for written already; write into another directory, or start "
        "from the savepoint or checkpoint that belongs to it",
    )

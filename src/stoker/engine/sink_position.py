"""Whether the files of a streaming sink are where its checkpoint says they are.

Spark's file sink keeps a log of the batches that it has written, and passes over those that are
in it. A checkpoint that is behind (an older savepoint, or the first start of a job in a used
directory) would lose everything until it has caught up, without a word.
"""

from pathlib import Path

from stoker.core.graph import FormatWrite, Sink
from stoker.engine.failures import CannotRun
from stoker.engine.places import Place, local_path

_LOG = "_spark_metadata"


def check_sink_position(sink: Sink, checkpoint: Place) -> None:
    """Where both are on this machine's file system; elsewhere it is not known here."""
    if not isinstance(sink.write, FormatWrite) or sink.write.path is None:
        return
    target = local_path(sink.write.path)
    if target is None or checkpoint.local is None:
        return
    written = _last_number(target / _LOG)
    committed = _last_number(checkpoint.local / "commits")
    # One more may be there: it was written, and its commit was not.
    if written <= committed + 1:
        return
    known = "has no batch yet" if committed < 0 else f"is at batch {committed}"
    raise CannotRun(
        "SinkIsAhead",
        f"{sink.write.path} has the batches up to {written} of an earlier run, and {sink.name} "
        f"{known}: Spark would leave out what it takes for written already; write into another "
        "directory, or start from the savepoint or checkpoint that belongs to it",
    )


def _last_number(folder: Path) -> int:
    names = [path.name.removesuffix(".compact") for path in folder.glob("[0-9]*")]
    return max((int(name) for name in names if name.isdecimal()), default=-1)

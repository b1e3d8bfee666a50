"""Whether the output of a streaming file sink fits the query's checkpoint.

Spark's file sink keeps a log of the batches that it has written and skips any batch in it. Two
mismatches are dangerous:

- The checkpoint is behind the log (an older savepoint, or a job's first start in a used
  directory): Spark would silently drop every batch until it has caught up. Refused.
- The log is behind the checkpoint (a savepoint continued in another directory, or state that was
  repartitioned): Spark reads the log without gaps and fails when it compacts the log, every tenth
  batch by default, or when someone reads the output. The missing batches are added as empty ones.

In a store that only Spark can reach nothing can be added, so a missing log is refused too.

A query whose checkpoint fits notes its job in the log (`stoker.savepoints.outputs`): a later job
without a checkpoint continues from that of the noted one.
"""

import contextlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyspark.errors import AnalysisException, PySparkException

from stoker.core.failpoints import failpoint
from stoker.core.graph import FormatWrite, Sink
from stoker.core.ids import JobId
from stoker.core.spark_paths import local_path
from stoker.engine.failures import CannotRun
from stoker.engine.region.locations import SparkDirectory
from stoker.osproc.atomic_file import write_atomically
from stoker.savepoints.outputs import (
    COMPACT,
    FILE_FORMATS,
    LOG,
    WRITER,
    decode_writer,
    encode_writer,
    last_batch,
    output_of,
)

_EMPTY = b"v1"
"""Content of the log entry of a batch that wrote no file."""
_INTERVAL = 10
"""Batches per compaction: Spark's default. Spark keeps any other interval that fits the log."""


def last_batch_in(folder: Path) -> int:
    return last_batch(path.name for path in folder.glob("[0-9]*"))


def create_empty_log(target: Path, committed: int) -> None:
    """Create a log in which all batches up to `committed` wrote nothing.

    One that was not completed is a log that lacks batches, and is extended later.
    """
    log = target / LOG
    log.mkdir(parents=True, exist_ok=True)
    compacted = (committed + 1) // _INTERVAL * _INTERVAL - 1
    if compacted >= 0:
        _write_batch(log / f"{compacted}{COMPACT}", _EMPTY)
    for number in range(compacted + 1, committed + 1):
        _write_batch(log / str(number), _EMPTY)


def extend_log(log: Path, committed: int) -> None:
    """Extend a log as if the missing batches up to `committed` had written nothing.

    Repartitioning the state takes one batch of the query, which no sink sees.
    """
    interval = _interval_of(log)
    for number in range(last_batch_in(log) + 1, committed + 1):
        if (number + 1) % interval == 0:
            _write_batch(log / f"{number}{COMPACT}", b"\n".join([_EMPTY, *_entries(log)]))
        else:
            _write_batch(log / str(number), _EMPTY)


def _interval_of(log: Path) -> int:
    """The interval as Spark derives it: from the last compacted files, else the default."""
    names = [path.name.removesuffix(COMPACT) for path in log.glob(f"[0-9]*{COMPACT}")]
    ends = sorted(int(name) for name in names if name.isdecimal())
    if len(ends) > 1:
        return ends[-1] - ends[-2]
    if not ends:
        return _INTERVAL
    batches = ends[0] + 1
    divisors = (each for each in range(_INTERVAL, batches) if batches % each == 0)
    return next(divisors, batches) if batches // 2 > _INTERVAL else batches


def _entries(log: Path) -> list[bytes]:
    """The entries of all batches: from the last compacted file and those after it."""
    compacted = last_batch(path.name for path in log.glob(f"[0-9]*{COMPACT}"))
    paths = [log / f"{compacted}{COMPACT}"] if compacted >= 0 else []
    paths += [log / str(number) for number in range(compacted + 1, last_batch_in(log) + 1)]
    return [line for path in paths for line in path.read_bytes().splitlines()[1:]]


def _write_batch(path: Path, content: bytes) -> None:
    write_atomically(path, content, before_rename=lambda: failpoint("sink-log.before-a-batch"))


def check_sink_position(sink: Sink, checkpoint: SparkDirectory) -> None:
    """Add the batches that the sink's log lacks; refuse a log that is ahead of the checkpoint.

    Does nothing unless output and checkpoint are both on this machine's file system.
    """
    if not isinstance(sink.write, FormatWrite) or sink.write.path is None:
        return
    target = local_path(sink.write.path)
    if target is None or checkpoint.local is None:
        return
    written = last_batch_in(target / LOG)
    committed = last_batch_in(checkpoint.local / "commits")
    if written < committed and sink.write.format in FILE_FORMATS:
        # If this cannot be written, Spark cannot write either and reports that itself.
        with contextlib.suppress(OSError):
            if written < 0:
                create_empty_log(target, committed)
            else:
                extend_log(target / LOG, committed)
    # One more batch may be there: planned and written, but not committed. Without its plan Spark
    # would plan it again, perhaps with more rows, and would take these for written.
    if written > max(committed, last_batch_in(checkpoint.local / "offsets")):
        writer = read_writer(target)
        raise _sink_is_ahead(sink.name, sink.write.path, f"up to {written}", committed, writer)


def _sink_is_ahead(
    sink: str, path: str, batches: str, committed: int, writer: JobId | None = None
) -> CannotRun:
    who = "an earlier run" if writer is None else f"job {writer}"
    start = "starts without a checkpoint" if committed < 0 else f"starts after batch {committed}"
    return CannotRun(
        "SinkIsAhead",
        f"{path} already has the batches {batches}, written by {who}, and {sink} {start}: Spark "
        "would take new batches with these numbers for written and drop their rows. Three ways "
        "on: (1) continue after them from the checkpoint or savepoint of that run, if "
        "stoker checkpoint list or stoker savepoint list still shows one: "
        "stoker run -s PATH FILE; (2) begin anew: remove the directory "
        f"{path} first, with all that it holds; (3) write into another directory",
    )


def note_writer(sink: Sink, job_id: JobId) -> None:
    """Note in the sink's log that this job writes it. Its checkpoint must fit the log."""
    output = output_of(sink)
    target = local_path(output) if output is not None else None
    if target is None or read_writer(target) == job_id:
        return
    # Without the note the job can still run; a later one is just not continued by itself.
    with contextlib.suppress(OSError):
        (target / LOG).mkdir(parents=True, exist_ok=True)
        write_atomically(target / LOG / WRITER, encode_writer(job_id))


def read_writer(target: Path) -> JobId | None:
    try:
        return decode_writer((target / LOG / WRITER).read_bytes())
    except OSError:
        return None


_NO_FILE_SYSTEM = re.compile(r"No (?:Abstract)?FileSystem (?:for|configured for) (?:fs )?scheme")


def check_remote_position(session: Any, sink: Sink, checkpoint: SparkDirectory) -> None:
    """Refuse a log that is ahead or missing, for a sink of a restored job.

    Does nothing unless the output or the checkpoint is in a store that only Spark can reach.
    """
    write = sink.write
    if not isinstance(write, FormatWrite) or write.path is None:
        return
    if write.format not in FILE_FORMATS:
        return
    if local_path(write.path) is not None and checkpoint.local is not None:
        return
    committed = _last_batch_at(session, checkpoint, "commits")
    if committed < 0:
        return
    log = f"{write.path.rstrip('/')}/{LOG}"
    if not _exists(session, f"{log}/{pattern_above(committed - 1)}"):
        raise CannotRun(
            "SinkHasNoLog",
            f"{write.path} has no log of the batches up to {committed}, after which {sink.name} "
            "continues: Spark would fail when it compacts the log, or when the output is read, and "
            "Stoker can create a log only in a directory of this machine; write into the directory "
            "that the saved job wrote into, or into one that is mounted here, or with a function "
            "(foreachBatch) that recognizes batches by their number",
        )
    # One more batch may be there: planned and written, but not committed.
    planned = max(committed, _last_batch_at(session, checkpoint, "offsets"))
    if _exists(session, f"{log}/{pattern_above(planned)}"):
        raise _sink_is_ahead(sink.name, write.path, f"beyond {planned}", committed)


def pattern_above(number: int) -> str:
    """A Hadoop pattern that matches log files of batches with a higher number."""
    if number < 0:
        return "[0-9]*"
    digits = str(number)
    alike = [
        f"{digits[:at]}[{int(digit) + 1}-9]{'[0-9]' * (len(digits) - at - 1)}"
        for at, digit in enumerate(digits)
        if digit < "9"
    ]
    longer = "[1-9]" + "[0-9]" * len(digits)
    return "{" + ",".join([*alike, *(f"{each}.compact" for each in alike), f"{longer}*"]) + "}"


def _last_batch_at(session: Any, checkpoint: SparkDirectory, name: str) -> int:
    if checkpoint.local is not None:
        return last_batch_in(checkpoint.local / name)
    try:
        files = _files(session, f"{checkpoint.url}/{name}")
    except _PathNotFound:
        return -1
    return last_batch(urlsplit(file).path.rpartition("/")[2] for file in files)


def _exists(session: Any, path: str) -> bool:
    """Spark does not list its own logs, but reports when a path does not exist."""
    try:
        _files(session, path)
    except _PathNotFound:
        return False
    return True


class _PathNotFound(Exception):
    pass


def _files(session: Any, path: str) -> list[str]:
    """Paths of the files; raises _PathNotFound. No content is read."""
    try:
        return list(session.read.format("binaryFile").load(path).inputFiles())
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise _PathNotFound from error


@contextmanager
def explain_no_file_system(checkpoint: SparkDirectory) -> Iterator[None]:
    """Explain Spark's refusal when it cannot reach the cluster's storage at all."""
    try:
        yield
    except PySparkException as error:
        if checkpoint.local is not None or not _NO_FILE_SYSTEM.search(str(error)):
            raise
        scheme = urlsplit(checkpoint.url).scheme
        raise CannotRun(
            "NoSuchFileSystem",
            f"the checkpoints of this cluster are at {checkpoint.url}, and its Spark has no file "
            f"system for {scheme}: give Spark one, by spark.jars.packages and "
            f"spark.hadoop.fs.{scheme}.impl in taskmanager.spark.properties (for S3: hadoop-aws "
            "and org.apache.hadoop.fs.s3a.S3AFileSystem), or let high-availability.storageDir be "
            "a directory that all machines mount",
        ) from error

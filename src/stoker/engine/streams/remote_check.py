"""The same as `sink_position` where checkpoint or output are in a store that only Spark reaches.

Nothing can be written there beside Spark: a sink without the log that it needs is refused.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from pyspark.errors import AnalysisException, PySparkException

from stoker.core.graph import FormatWrite, Sink
from stoker.engine.failures import CannotRun
from stoker.engine.region.locations import Place, local_path
from stoker.engine.streams.sink_check import FILE_FORMATS, ahead
from stoker.engine.streams.sink_log import LOG, last_number, last_of

_NO_FILE_SYSTEM = re.compile(r"No (?:Abstract)?FileSystem (?:for|configured for) (?:fs )?scheme")


def check_remote_position(session: Any, sink: Sink, checkpoint: Place) -> None:
    """Of a job that goes on from a savepoint: others begin with output and checkpoint together."""
    write = sink.write
    if not isinstance(write, FormatWrite) or write.path is None:
        return
    if write.format not in FILE_FORMATS:
        return
    if local_path(write.path) is not None and checkpoint.local is not None:
        return
    committed = _last_of(session, checkpoint, "commits")
    if committed < 0:
        return
    log = f"{write.path.rstrip('/')}/{LOG}"
    if not _exists(session, f"{log}/{pattern_above(committed - 1)}"):
        raise CannotRun(
            "SinkHasNoLog",
            f"{write.path} has no log of the batches up to {committed}, with which {sink.name} "
            "goes on: Spark would fail when it compacts the log, or when the output is read, and "
            "Stoker can begin one in a directory of this machine only; write into the directory "
            "that the saved job wrote into, or into one that is mounted here, or with a function "
            "(foreachBatch) that knows batches by their number",
        )
    # One more may be there: it was planned and written, and its commit was not.
    planned = max(committed, _last_of(session, checkpoint, "offsets"))
    if _exists(session, f"{log}/{pattern_above(planned)}"):
        raise ahead(sink.name, write.path, f"beyond {planned}", committed)


def pattern_above(number: int) -> str:
    """Of names of batches in a log with a higher number, as Hadoop takes patterns."""
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


def _last_of(session: Any, checkpoint: Place, name: str) -> int:
    if checkpoint.local is not None:
        return last_number(checkpoint.local / name)
    try:
        files = _files(session, f"{checkpoint.url}/{name}")
    except _NotThere:
        return -1
    return last_of(urlsplit(file).path.rpartition("/")[2] for file in files)


def _exists(session: Any, path: str) -> bool:
    """Spark lists nothing of its own logs, but says when there is no such path."""
    try:
        _files(session, path)
    except _NotThere:
        return False
    return True


class _NotThere(Exception):
    pass


def _files(session: Any, path: str) -> list[str]:
    """Names alone; no file is read."""
    try:
        return list(session.read.format("binaryFile").load(path).inputFiles())
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise _NotThere from error


@contextmanager
def within_reach(checkpoint: Place) -> Iterator[None]:
    """Explains Spark's refusal when it cannot reach the cluster's storage at all."""
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

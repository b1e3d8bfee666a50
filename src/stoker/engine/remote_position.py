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
from stoker.engine.places import Place, local_path
from stoker.engine.sink_position import FILE_FORMATS, LOG, check_not_ahead, last_of

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
    committed = _last_number(session, f"{checkpoint.url}/commits")
    if committed < 0:
        return
    written = _last_number(session, f"{write.path.rstrip('/')}/{LOG}")
    if written < 0:
        raise CannotRun(
            "SinkHasNoLog",
            f"{write.path} has no log of the batches up to {committed}, with which {sink.name} "
            "goes on: Spark would fail when it compacts the log, or when the output is read, and "
            "Stoker can begin one in a directory of this machine only; write into the directory "
            "that the saved job wrote into, or into one that is mounted here, or with a function "
            "(foreachBatch) that knows batches by their number",
        )
    check_not_ahead(sink.name, write.path, written=written, committed=committed)


def _last_number(session: Any, folder: str) -> int:
    """Names alone; no file is read."""
    try:
        files = session.read.format("binaryFile").load(folder).inputFiles()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return -1
    return last_of(urlsplit(file).path.rpartition("/")[2] for file in files)


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

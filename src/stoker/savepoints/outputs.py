"""The log that a streaming file sink keeps in its output, and the note of who wrote it last.

Spark's file sink records every batch that it has written in a folder of the output. Beside these
records, each query of Stoker notes its job before it writes its first batch. The note lives and
dies with the log, and a query begins only where its checkpoint fits the log. So all batches of a
log belong to the history of the job that is noted: it wrote them, or it continued after them.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from stoker.core.errors import NotFound
from stoker.core.graph import FormatWrite, JobGraph, JobType, Sink
from stoker.core.ids import JobId, is_hex_id
from stoker.core.spark_paths import local_path
from stoker.core.values import Value, decode_json
from stoker.savepoints.locations import OpenStorage

LOG = "_spark_metadata"
"""Folder of the log in the output."""
WRITER = "stoker-writer.json"
"""Name of the note. Spark ignores files in the log that are not named by a number."""
FILE_FORMATS = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
"""Formats whose sinks keep such a log."""
COMPACT = ".compact"
"""Suffix of a record that contains all earlier ones."""


class OutputWriter(Value):
    """Content of the note."""

    job_id: JobId
    version: int = 1


@dataclass(frozen=True, kw_only=True)
class OutputLog:
    last_batch: int
    """-1 if the output has no batch."""
    writer: JobId | None
    """None if no query of Stoker has noted itself."""


def last_batch(names: Iterable[str]) -> int:
    """The highest batch number among the file names of a log; -1 if there is none."""
    numbers = [name.removesuffix(COMPACT) for name in names]
    return max((int(number) for number in numbers if number.isdecimal()), default=-1)


def output_of(sink: Sink) -> str | None:
    """The path of the sink's output if it keeps a log there, else None."""
    write = sink.write
    return write.path if isinstance(write, FormatWrite) and write.format in FILE_FORMATS else None


def shared_output(graph: JobGraph, others: Iterable[JobGraph]) -> tuple[JobGraph, str] | None:
    """One of the other jobs that writes the same output, and its path, if one of both is a stream.

    Two queries must not write one log: Spark takes the batches of the second for those that the
    first has written already, and drops their rows without a word. A batch job that writes there
    deletes the rows of the stream, or adds rows that no reader sees, as the log does not name them.
    """
    outputs = outputs_of(graph)
    if not outputs:
        return None
    for other in others:
        if JobType.STREAMING not in (graph.job_type, other.job_type):
            continue
        for output, path in outputs_of(other).items():
            if output in outputs:
                return other, path
    return None


def outputs_of(graph: JobGraph) -> dict[str, str]:
    """The outputs in which a stream keeps such a log, by their names in one form."""
    sinks = [vertex for vertex in graph.vertices if isinstance(vertex, Sink)]
    paths = [path for path in map(output_of, sinks) if path is not None]
    return {_in_one_form(path): path for path in paths}


def _in_one_form(path: str) -> str:
    local = local_path(path)
    return path.rstrip("/") if local is None else os.path.normpath(local)


def encode_writer(job_id: JobId) -> bytes:
    return msgspec.json.encode(OutputWriter(job_id=job_id))


def decode_writer(content: bytes) -> JobId | None:
    """None for a note that cannot be read: it proves nothing."""
    try:
        writer = decode_json(content, OutputWriter)
    except msgspec.DecodeError:
        return None
    return writer.job_id if is_hex_id(writer.job_id) else None


async def read_log(path: str, open_storage: OpenStorage) -> OutputLog:
    """The log of the output at this absolute path, as seen from this machine."""
    storage = open_storage(f"{path.rstrip('/')}/{LOG}")
    names = await storage.list("")
    try:
        writer = decode_writer(await storage.read(WRITER)) if WRITER in names else None
    except NotFound:
        writer = None
    return OutputLog(last_batch=last_batch(names), writer=writer)

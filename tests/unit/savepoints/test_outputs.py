"""Whether a job writes the output of a stream."""

import msgspec
import pytest

from builders import build_graph
from stoker.core.graph import FormatRead, FormatWrite, JobGraph, JobType, Sink, Source
from stoker.savepoints.outputs import shared_output


def stream(path: str | None, format: str | None = "parquet") -> JobGraph:
    return build_graph(
        Source(name="in", read=FormatRead(format="rate"), streaming=True),
        Sink(name="out", input="in", write=FormatWrite(format=format, path=path)),
        job_type=JobType.STREAMING,
    )


@pytest.mark.parametrize("path", ["/out", "/out/", "file:/out", "file:///out", "/in/../out"])
def test_one_directory_is_the_same_output_in_every_spelling(path: str) -> None:
    first, second = stream("/out"), stream(path)
    assert shared_output(second, [stream("/other"), first]) == (first, "/out")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (stream("/out"), stream("/out/a")),
        (stream("/out"), stream("s3a://bucket/out")),
        (stream("/out"), stream("/out", "kafka")),
        (stream(None, "noop"), stream(None, "noop")),
    ],
)
def test_other_outputs_are_not_shared(first: JobGraph, second: JobGraph) -> None:
    assert shared_output(second, [first]) is None


def test_a_batch_job_may_not_write_into_the_output_of_a_stream() -> None:
    batch = msgspec.structs.replace(stream("/out"), job_type=JobType.BATCH)
    assert shared_output(batch, [stream("/out")]) == (stream("/out"), "/out")
    assert shared_output(stream("/out"), [batch]) == (batch, "/out")


def test_batch_jobs_may_write_the_same_output() -> None:
    batch = msgspec.structs.replace(stream("/out"), job_type=JobType.BATCH)
    assert shared_output(batch, [batch]) is None

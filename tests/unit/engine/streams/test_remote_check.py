"""Sinks and checkpoints in a store that only Spark reaches."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import AnalysisException, SparkRuntimeException

from stoker.core.graph import FormatWrite, Sink
from stoker.engine.failures import CannotRun
from stoker.engine.region.locations import Place
from stoker.engine.streams.remote_check import (
    check_remote_position,
    pattern_above,
    within_reach,
)

CHECKPOINT = Place(url="s3://cluster/checkpoints/out", local=None)
OUT = "s3a://data/out"


class NotThere(AnalysisException):
    def getCondition(self) -> str:
        return "PATH_NOT_FOUND"


class Store:
    """Answers as a session does, which lists all but the logs of sinks."""

    def __init__(
        self,
        commits: list[str] | None = None,
        log: list[str] | None = None,
        offsets: list[str] | None = None,
    ) -> None:
        self._names = {
            f"{CHECKPOINT.url}/commits": commits,
            f"{CHECKPOINT.url}/offsets": commits if offsets is None else offsets,
        }
        self.log = log
        self.asked: list[str] = []

    @property
    def read(self) -> "Store":
        return self

    def format(self, _name: str) -> "Store":
        return self

    def load(self, path: str) -> "Store":
        self.asked.append(path)
        return self

    def inputFiles(self) -> list[str]:
        path = self.asked[-1]
        if path in self._names:
            names = self._names[path]
            if names is None:
                raise NotThere("no such path")
            return [f"{path}/{name}" for name in names]
        pattern = path.removeprefix(f"{OUT}/_spark_metadata").strip("/")
        if self.log is None or not matching(pattern or "*", self.log):
            raise NotThere("no such path")
        return []


def matching(pattern: str, names: list[str]) -> list[str]:
    """As Hadoop does, for one pair of braces."""
    patterns = pattern.strip("{}").split(",")
    return [name for name in names if any(fnmatchcase(name, each) for each in patterns)]


def check(store: Store, checkpoint: Place = CHECKPOINT, **write: Any) -> None:
    sink = Sink(name="out", input="raw", write=FormatWrite(**({"path": OUT} | write)))
    check_remote_position(store, sink, checkpoint)


def test_a_job_that_goes_on_in_the_directory_of_the_saved_one_is_welcome():
    going_on = Store(commits=["8", "9"], offsets=["8", "9", "10"], log=["9.compact", "10"])
    check(going_on, format="parquet")


def test_a_batch_that_was_written_and_that_the_checkpoint_has_no_plan_of_is_refused():
    with pytest.raises(CannotRun, match=r"batches beyond 9 .* is at batch 9"):
        check(Store(commits=["8", "9"], log=["9.compact", "10"]), format="parquet")


def test_an_empty_directory_is_refused_and_the_ways_out_are_named():
    with pytest.raises(CannotRun, match=r"no log of the batches up to 9.*foreachBatch") as got:
        check(Store(commits=["9"]), format="parquet")
    assert got.value.error == "SinkHasNoLog"


def test_a_log_without_the_last_batch_is_refused_since_spark_would_fail_to_compact_it():
    with pytest.raises(CannotRun) as refused:
        check(Store(commits=["9"], log=["7", "8"]), format="parquet")
    assert refused.value.error == "SinkHasNoLog"
    check(Store(commits=["0"], log=["0"]), format="parquet")


def test_a_directory_that_is_further_on_is_refused():
    for log in (["9.compact", "11"], ["19.compact"], ["20"], ["99.compact", "100"]):
        with pytest.raises(CannotRun, match=r"batches beyond 10 .* is at batch 9") as refused:
            check(Store(commits=["9"], offsets=["9", "10"], log=log), format="parquet")
        assert refused.value.error == "SinkIsAhead"


@given(st.integers(0, 12_000), st.integers(0, 120_000))
def test_a_pattern_matches_higher_numbers_and_no_others(number: int, other: int):
    for name in (f"{other}", f"{other}.compact"):
        assert bool(matching(pattern_above(number), [name])) is (other > number)


def test_a_query_that_has_no_batch_yet_begins_its_log_itself():
    check(Store(), format="parquet")


@pytest.mark.parametrize(
    ("checkpoint", "write"),
    [
        (CHECKPOINT, {"format": "delta"}),
        (CHECKPOINT, {"format": "kafka", "path": None}),
        (Place(url="file:///c", local=Path("/c")), {"path": "/out"}),
    ],
)
def test_where_it_does_not_matter_spark_is_not_asked(checkpoint: Place, write: dict[str, Any]):
    store = Store()
    check(store, checkpoint, **({"format": "parquet"} | write))
    assert store.asked == []


MISSING = 'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "s3"'


def test_a_store_that_spark_cannot_reach_is_told_with_what_it_needs():
    ways_out = r"spark\.hadoop\.fs\.s3\.impl.*storageDir"
    with pytest.raises(CannotRun, match=ways_out) as refused, within_reach(CHECKPOINT):
        raise SparkRuntimeException(MISSING)
    assert refused.value.error == "NoSuchFileSystem"


def test_other_troubles_are_told_as_they_are():
    with pytest.raises(SparkRuntimeException, match="no disk"), within_reach(CHECKPOINT):
        raise SparkRuntimeException("no disk")
    local = Place(url="file:///c", local=Path("/c"))
    with pytest.raises(SparkRuntimeException, match="No FileSystem"), within_reach(local):
        raise SparkRuntimeException(MISSING)

"""Sinks and checkpoints in a store that only Spark reaches."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException

from stoker.core.graph import FormatWrite, Sink
from stoker.engine.failures import CannotRun
from stoker.engine.places import Place
from stoker.engine.remote_position import check_remote_position, within_reach

CHECKPOINT = Place(url="s3://cluster/checkpoints/out", local=None)
OUT = "s3a://data/out"


class NotThere(AnalysisException):
    def getCondition(self) -> str:
        return "PATH_NOT_FOUND"


class Store:
    """Answers as a session does that lists files."""

    def __init__(self, **folders: list[str]) -> None:
        self.folders = {
            f"{CHECKPOINT.url}/commits": folders.get("commits"),
            f"{OUT}/_spark_metadata": folders.get("log"),
        }
        self.asked: list[str] = []

    @property
    def read(self) -> "Store":
        return self

    def format(self, _name: str) -> "Store":
        return self

    def load(self, folder: str) -> "Store":
        self.asked.append(folder)
        return self

    def inputFiles(self) -> list[str]:
        names = self.folders[self.asked[-1]]
        if names is None:
            raise NotThere("no such path")
        return [f"{self.asked[-1]}/{name}" for name in names]


def check(store: Store, checkpoint: Place = CHECKPOINT, **write: Any) -> None:
    sink = Sink(name="out", input="raw", write=FormatWrite(**({"path": OUT} | write)))
    check_remote_position(store, sink, checkpoint)


def test_a_job_that_goes_on_in_the_directory_of_the_saved_one_is_welcome():
    check(Store(commits=["8", "9"], log=["9.compact", "10"]), format="parquet")


def test_an_empty_directory_is_refused_and_the_ways_out_are_named():
    for log in (None, []):
        with pytest.raises(CannotRun, match=r"no log of the batches up to 9.*foreachBatch") as got:
            check(Store(commits=["9"], log=log), format="parquet")
        assert got.value.error == "SinkHasNoLog"


def test_a_directory_that_is_further_on_is_refused():
    with pytest.raises(CannotRun, match=r"batches up to 12 .* is at batch 9") as refused:
        check(Store(commits=["9"], log=["9.compact", "12"]), format="parquet")
    assert refused.value.error == "SinkIsAhead"


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

"""After a crash at any failpoint of publishing, the next attempt publishes every file once."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from stoker.core.failpoints import RUNNER_FAILPOINTS, armed
from stoker.core.graph import FormatWrite, JobGraph, Sink, Source, Sql
from stoker.core.ids import AttemptId, JobId
from stoker.core.regions import regions_of
from stoker.engine.failures import CannotRun
from stoker.engine.output.files import files_of
from stoker.engine.output.publish import Publisher, publisher_for
from stoker.engine.protocol import RunTask

PUBLISHING = sorted(name for name in RUNNER_FAILPOINTS if name.startswith("publishing."))
BEFORE_THE_DECISION = {
    "publishing.before-staging",
    "publishing.after-staging",
    "publishing.before-record",
}
numbers = itertools.count()


class Crash(BaseException):
    pass


class SinkHarness:
    """Attempts of one sink. The test writes the files that Spark would write."""

    def __init__(self, root: Path, target: str) -> None:
        self.root = root
        self.target = target
        self.files = files_of(target)
        assert self.files is not None
        self.mode = "append"

    def publisher(self, attempt: str = "") -> Publisher:
        sink = Sink(
            name="out",
            input="numbers",
            write=FormatWrite(format="parquet", path=self.target, partition_by=("p",)),
            mode=self.mode,
        )
        graph = JobGraph(
            job_id=JobId("0" * 32),
            name="job",
            vertices=(Source(name="numbers", read=Sql(query="SELECT 1")), sink),
        )
        task = RunTask(
            graph=graph,
            region=regions_of(graph)[0],
            attempt=AttemptId(attempt or f"attempt-{next(numbers)}"),
            directory=str(self.root),
            materialized_root=(self.root / "results").as_uri(),
            checkpoint_root="",
            artifacts={},
        )
        publisher = publisher_for(task, sink)
        assert publisher is not None
        return publisher

    def write(self, folder: str) -> None:
        content = {"_SUCCESS": b"", "p=a/part-new-1": b"1", "p=b/part-new-2": b"22"}
        for path, data in content.items():
            self.put(f"{folder}/{path}", data)

    def put(self, path: str, data: bytes) -> None:
        with fsspec.open(path, "wb", auto_mkdir=True) as file:
            file.write(data)

    def attempt(self, *, by_partition: bool = False) -> None:
        publisher = self.publisher()
        if publisher.finish_earlier_attempt() is None:
            publisher.publish(self.write, by_partition=by_partition)

    def crash(self, name: str, *, by_partition: bool) -> bool:
        def die() -> None:
            raise Crash(name)

        try:
            with armed(name, die):
                self.attempt(by_partition=by_partition)
        except Crash:
            return True
        return False

    def list_files(self) -> list[str]:
        assert self.files is not None
        return sorted(self.files.sizes(self.target))


@pytest.fixture(params=["local", "remote"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SinkHarness]:
    if request.param == "local":
        yield SinkHarness(tmp_path, str(tmp_path / "here" / "out"))
        return
    root = f"memory://sink-{next(numbers)}"
    yield SinkHarness(tmp_path, f"{root}/out")
    fsspec.filesystem("memory").rm(root, recursive=True)


NEW = ["_SUCCESS", "p=a/part-new-1", "p=b/part-new-2"]
OLD = ["p=a/part-old-1", "p=c/part-old-2"]
RESULTS = {
    ("append", False): sorted([*NEW, *OLD]),
    ("overwrite", False): NEW,
    ("overwrite", True): sorted([*NEW, "p=c/part-old-2"]),
}


@pytest.mark.parametrize("name", PUBLISHING)
@pytest.mark.parametrize(("mode", "by_partition"), RESULTS)
def test_publishing_into_a_directory_with_content_survives_a_crash(
    harness: SinkHarness, name: str, mode: str, by_partition: bool
) -> None:
    for path in OLD:
        harness.put(f"{harness.target}/{path}", b"old")
    harness.mode = mode
    crashed = harness.crash(name, by_partition=by_partition)
    assert crashed or (name == "publishing.before-removing-replaced" and mode == "append")
    if name in BEFORE_THE_DECISION:
        assert [path for path in harness.list_files() if "/.stoker" not in f"/{path}"] == OLD
    harness.attempt(by_partition=by_partition)
    assert harness.list_files() == RESULTS[mode, by_partition]
    harness.attempt(by_partition=by_partition)
    assert harness.list_files() == RESULTS[mode, by_partition]


@pytest.mark.parametrize("name", PUBLISHING)
def test_a_new_local_directory_appears_atomically(tmp_path: Path, name: str) -> None:
    harness = SinkHarness(tmp_path, str(tmp_path / "here" / "out"))
    harness.mode = "errorifexists"
    harness.crash(name, by_partition=False)
    assert harness.list_files() in ([], NEW)
    harness.attempt()
    assert harness.list_files() == NEW
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["out"]


def test_a_target_that_exists_is_refused_or_left_alone_by_mode(harness: SinkHarness) -> None:
    harness.put(f"{harness.target}/p=a/part-old-1", b"old")
    harness.mode = "ignore"
    harness.attempt()
    assert harness.list_files() == ["p=a/part-old-1"]
    harness.mode = "errorifexists"
    with pytest.raises(CannotRun, match="already exists"):
        harness.attempt()


@pytest.mark.parametrize("mode", ["ignore", "errorifexists"])
def test_a_target_that_somebody_creates_during_the_write_is_left_alone(
    harness: SinkHarness, mode: str
) -> None:
    def write_beside_another(folder: str) -> None:
        harness.write(folder)
        harness.put(f"{harness.target}/part-of-another", b"1")

    harness.mode = mode
    publisher = harness.publisher()
    if mode == "ignore":
        assert publisher.publish(write_beside_another, by_partition=False) is None
    else:
        with pytest.raises(CannotRun, match="already exists"):
            publisher.publish(write_beside_another, by_partition=False)
    assert publisher.finish_earlier_attempt() is None
    assert harness.files is not None
    beside = harness.files.sizes(harness.target.rpartition("/")[0])
    assert list(beside) == ["out/part-of-another"]


def test_a_failed_write_leaves_nothing_behind(harness: SinkHarness) -> None:
    def half(folder: str) -> None:
        harness.put(f"{folder}/part-1", b"1")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        harness.publisher().publish(half, by_partition=False)
    assert harness.files is not None
    assert harness.files.sizes(harness.target.rpartition("/")[0]) == {}


def test_a_decided_output_survives_a_failure_to_move_it(tmp_path: Path) -> None:
    harness = SinkHarness(tmp_path, str(tmp_path / "out"))
    harness.put(f"{harness.target}/p=a/part-old-1", b"old")

    def no_space() -> None:
        raise OSError("the disk is full")

    with armed("publishing.before-a-move", no_space), pytest.raises(OSError, match="full"):
        harness.attempt()
    harness.attempt()
    assert harness.list_files() == sorted([*NEW, "p=a/part-old-1"])


def test_files_that_were_removed_before_they_were_published_are_named(tmp_path: Path) -> None:
    harness = SinkHarness(tmp_path, str(tmp_path / "out"))
    harness.put(f"{harness.target}/p=a/part-old-1", b"old")
    harness.crash("publishing.after-record", by_partition=False)
    [staged] = [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".stoker")]
    (staged / "p=a" / "part-new-1").unlink()
    with pytest.raises(CannotRun, match="part-new-1 was removed before it was published"):
        harness.attempt()


def test_spark_alone_writes_relative_paths_tables_and_foreign_formats(tmp_path: Path) -> None:
    harness = SinkHarness(tmp_path, str(tmp_path / "out"))
    task = harness.publisher()._task
    for write in (
        FormatWrite(format="parquet", path="relative/out"),
        FormatWrite(format="parquet", table="t"),
        FormatWrite(format="noop"),
        FormatWrite(format="delta", path="/data"),
        FormatWrite(format="parquet", path="nosuchscheme://x/y"),
    ):
        sink = Sink(name="out", input="numbers", write=write)
        assert publisher_for(task, sink) is None

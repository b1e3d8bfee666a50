"""A file sink whose log is ahead of the checkpoint is refused."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import AnalysisException, SparkRuntimeException

from stoker.core.failpoints import armed
from stoker.core.graph import FormatWrite, Sink
from stoker.core.ids import JobId
from stoker.engine.failures import CannotRun
from stoker.engine.region.locations import SparkDirectory
from stoker.engine.streams.sink_position import (
    check_remote_position,
    check_sink_position,
    explain_no_file_system,
    extend_log,
    note_writer,
    pattern_above,
    read_writer,
)
from stoker.savepoints.outputs import WRITER, last_batch


def create_batches(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()


def check_local(root: Path) -> None:
    write = FormatWrite(format="parquet", path=str(root / "out"))
    place = SparkDirectory(url=(root / "checkpoint").as_uri(), local=root / "checkpoint")
    check_sink_position(Sink(name="out", input="raw", write=write), place)


def test_a_batch_that_was_written_but_not_committed_is_accepted(tmp_path: Path):
    create_batches(tmp_path / "out" / "_spark_metadata", "0", "1", "9.compact", "10", ".10.crc")
    create_batches(tmp_path / "checkpoint" / "commits", "8", "9", ".9.crc")
    create_batches(tmp_path / "checkpoint" / "offsets", "8", "9", "10", ".10.crc")
    check_local(tmp_path)


def test_a_written_batch_that_the_checkpoint_did_not_plan_is_refused(
    tmp_path: Path,
):
    """Spark may plan it again with more rows than were written, and would skip all of them."""
    create_batches(tmp_path / "out" / "_spark_metadata", "9.compact", "10")
    create_batches(tmp_path / "checkpoint" / "commits", "9")
    create_batches(tmp_path / "checkpoint" / "offsets", "9")
    with pytest.raises(CannotRun, match=r"batches up to 10,.* starts after batch 9"):
        check_local(tmp_path)


def test_a_first_start_in_a_directory_with_a_single_batch_is_refused(tmp_path: Path):
    create_batches(tmp_path / "out" / "_spark_metadata", "0")
    with pytest.raises(CannotRun, match="starts without a checkpoint"):
        check_local(tmp_path)
    create_batches(tmp_path / "checkpoint" / "offsets", "0")
    check_local(tmp_path)


def test_a_sink_log_ahead_of_the_checkpoint_is_refused(tmp_path: Path):
    create_batches(tmp_path / "out" / "_spark_metadata", "9.compact", "11")
    create_batches(tmp_path / "checkpoint" / "commits", "9")
    with pytest.raises(CannotRun, match=r"batches up to 11,.* starts after batch 9"):
        check_local(tmp_path)


def test_a_first_start_is_refused_in_a_used_directory_and_accepted_in_a_new_one(tmp_path: Path):
    check_local(tmp_path)
    create_batches(tmp_path / "out" / "_spark_metadata", "0", "1")
    with pytest.raises(CannotRun, match="starts without a checkpoint"):
        check_local(tmp_path)


@pytest.mark.parametrize(
    ("committed", "log"),
    [
        (0, ["0"]),
        (8, ["0", "1", "2", "3", "4", "5", "6", "7", "8"]),
        (9, ["9.compact"]),
        (41, ["39.compact", "40", "41"]),
    ],
)
def test_a_new_directory_of_a_restored_job_gets_a_log_of_the_earlier_batches(
    tmp_path: Path, committed: int, log: list[str]
):
    """Without it, Spark fails at its next compaction, and readers of the output fail at once."""
    create_batches(tmp_path / "checkpoint" / "commits", str(committed))
    check_local(tmp_path)
    written = sorted((tmp_path / "out" / "_spark_metadata").iterdir(), key=lambda path: path.name)
    assert sorted(path.name for path in written) == sorted(log)
    assert {path.read_bytes() for path in written} == {b"v1"}
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["_spark_metadata"]


def log_of(root: Path, *batches: str) -> Path:
    """Write a sink log in which each batch has one entry, named like the batch."""
    log = root / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    for name in batches:
        (log / name).write_text(f"v1\nentry {name}")
    return log


def test_a_batch_that_only_the_checkpoint_has_is_added_to_the_log_as_empty(tmp_path: Path):
    """Repartitioning commits such a batch, and Spark can never compact a log with a gap."""
    log = log_of(tmp_path, "0", "1", "2")
    create_batches(tmp_path / "checkpoint" / "commits", "2", "3", "4")
    check_local(tmp_path)
    assert {path.name for path in log.iterdir()} == {"0", "1", "2", "3", "4"}
    assert (log / "2").read_text() == "v1\nentry 2"
    assert (log / "3").read_text() == (log / "4").read_text() == "v1"


def test_a_crash_while_filling_the_log_is_completed_by_the_next_attempt(tmp_path: Path):
    log = log_of(tmp_path, *map(str, range(8)))
    create_batches(tmp_path / "checkpoint" / "commits", "10")
    hits: list[int] = []

    def die_at_the_second() -> None:
        hits.append(1)
        if len(hits) == 2:
            raise RuntimeError("dead")

    with armed("sink-log.before-a-batch", die_at_the_second), pytest.raises(RuntimeError):
        extend_log(log, 10)
    assert not (log / "9.compact").exists()
    check_local(tmp_path)
    assert (log / "9.compact").exists()
    assert (log / "10").exists()


def test_an_added_compacted_batch_contains_all_earlier_batches(tmp_path: Path):
    log = log_of(tmp_path, "9.compact", *map(str, range(10, 19)))
    create_batches(tmp_path / "checkpoint" / "commits", "20")
    check_local(tmp_path)
    entries = (log / "19.compact").read_text().splitlines()
    assert entries == ["v1", "entry 9.compact", *(f"entry {n}" for n in range(10, 19))]
    assert (log / "20").read_text() == "v1"
    assert not (log / "19").exists()


@pytest.mark.parametrize(
    ("compacted", "missing", "name"),
    [(4, 9, "9.compact"), (14, 19, "19"), (32, 43, "43.compact"), (19, 29, "29")],
)
def test_the_compaction_interval_is_derived_from_the_log(
    tmp_path: Path, compacted: int, missing: int, name: str
):
    log = log_of(tmp_path, f"{compacted}.compact", *map(str, range(compacted + 1, missing)))
    create_batches(tmp_path / "checkpoint" / "commits", str(missing))
    check_local(tmp_path)
    assert (log / name).exists()


def test_other_formats_and_existing_logs_stay_unchanged(tmp_path: Path):
    create_batches(tmp_path / "checkpoint" / "commits", "3")
    place = SparkDirectory(url=(tmp_path / "checkpoint").as_uri(), local=tmp_path / "checkpoint")
    table = FormatWrite(format="delta", path=str(tmp_path / "table"))
    check_sink_position(Sink(name="out", input="raw", write=table), place)
    assert not (tmp_path / "table").exists()
    create_batches(tmp_path / "out" / "_spark_metadata", "2", "3")
    check_local(tmp_path)
    assert len(list((tmp_path / "out" / "_spark_metadata").iterdir())) == 2


def note(root: Path, job_id: JobId) -> None:
    write = FormatWrite(format="parquet", path=str(root / "out"))
    note_writer(Sink(name="out", input="raw", write=write), job_id)


def test_a_query_notes_its_job_in_the_log_where_spark_does_not_see_it(tmp_path: Path):
    create_batches(tmp_path / "out" / "_spark_metadata", "0", "1")
    note(tmp_path, JobId("a" * 32))
    note(tmp_path, JobId("b" * 32))
    assert read_writer(tmp_path / "out") == "b" * 32
    log = tmp_path / "out" / "_spark_metadata"
    assert last_batch(path.name for path in log.iterdir()) == 1


def test_the_refusal_names_the_job_that_wrote_the_output_and_the_way_on(tmp_path: Path):
    create_batches(tmp_path / "out" / "_spark_metadata", "0", "1")
    note(tmp_path, JobId("a" * 32))
    with pytest.raises(CannotRun, match="a" * 32) as refused:
        check_local(tmp_path)
    assert "stoker checkpoint list" in refused.value.message
    assert "stoker run -s PATH FILE" in refused.value.message


def test_a_note_in_an_empty_log_does_not_keep_the_log_from_being_filled(tmp_path: Path):
    note(tmp_path, JobId("a" * 32))
    create_batches(tmp_path / "checkpoint" / "commits", "10", "11")
    check_local(tmp_path)
    names = {path.name for path in (tmp_path / "out" / "_spark_metadata").iterdir()}
    assert names == {"9.compact", "10", "11", WRITER}


def test_a_note_that_cannot_be_read_names_nobody(tmp_path: Path):
    create_batches(tmp_path / "out" / "_spark_metadata", "0")
    for content in (b"", b"{", b'{"job_id":"../../etc"}'):
        (tmp_path / "out" / "_spark_metadata" / WRITER).write_bytes(content)
        assert read_writer(tmp_path / "out") is None


def test_sinks_without_a_log_get_no_note(tmp_path: Path):
    table = FormatWrite(format="delta", path=str(tmp_path / "table"))
    remote = FormatWrite(format="parquet", path="s3a://data/out")
    for write in (table, remote, FormatWrite(format="noop")):
        note_writer(Sink(name="out", input="raw", write=write), JobId("a" * 32))
    assert list(tmp_path.iterdir()) == []


CHECKPOINT = SparkDirectory(url="s3://cluster/checkpoints/out", local=None)
OUT = "s3a://data/out"


class NotThere(AnalysisException):
    def getCondition(self) -> str:
        return "PATH_NOT_FOUND"


class Store:
    """A session that lists all files except those in the logs of sinks, like Spark."""

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
    """Match like Hadoop, for patterns with at most one pair of braces."""
    patterns = pattern.strip("{}").split(",")
    return [name for name in names if any(fnmatchcase(name, each) for each in patterns)]


def check_remote(store: Store, checkpoint: SparkDirectory = CHECKPOINT, **write: Any) -> None:
    sink = Sink(name="out", input="raw", write=FormatWrite(**({"path": OUT} | write)))
    check_remote_position(store, sink, checkpoint)


def test_a_restored_job_may_continue_in_the_directory_of_the_saved_job():
    restored = Store(commits=["8", "9"], offsets=["8", "9", "10"], log=["9.compact", "10"])
    check_remote(restored, format="parquet")


def test_a_remote_batch_that_the_checkpoint_did_not_plan_is_refused():
    with pytest.raises(CannotRun, match=r"batches beyond 9,.* starts after batch 9"):
        check_remote(Store(commits=["8", "9"], log=["9.compact", "10"]), format="parquet")


def test_an_empty_directory_is_refused_with_remedies():
    with pytest.raises(CannotRun, match=r"no log of the batches up to 9.*foreachBatch") as got:
        check_remote(Store(commits=["9"]), format="parquet")
    assert got.value.error == "SinkHasNoLog"


def test_a_log_without_the_last_batch_is_refused_since_spark_would_fail_to_compact_it():
    with pytest.raises(CannotRun) as refused:
        check_remote(Store(commits=["9"], log=["7", "8"]), format="parquet")
    assert refused.value.error == "SinkHasNoLog"
    check_remote(Store(commits=["0"], log=["0"]), format="parquet")


def test_a_remote_directory_ahead_of_the_checkpoint_is_refused():
    for log in (["9.compact", "11"], ["19.compact"], ["20"], ["99.compact", "100"]):
        with pytest.raises(
            CannotRun, match=r"batches beyond 10,.* starts after batch 9"
        ) as refused:
            check_remote(Store(commits=["9"], offsets=["9", "10"], log=log), format="parquet")
        assert refused.value.error == "SinkIsAhead"


@given(st.integers(0, 12_000), st.integers(0, 120_000))
def test_a_pattern_matches_higher_numbers_and_no_others(number: int, other: int):
    for name in (f"{other}", f"{other}.compact"):
        assert bool(matching(pattern_above(number), [name])) is (other > number)


def test_a_query_without_a_batch_starts_its_own_log():
    check_remote(Store(), format="parquet")


@pytest.mark.parametrize(
    ("checkpoint", "write"),
    [
        (CHECKPOINT, {"format": "delta"}),
        (CHECKPOINT, {"format": "kafka", "path": None}),
        (SparkDirectory(url="file:///c", local=Path("/c")), {"path": "/out"}),
    ],
)
def test_spark_is_not_asked_about_sinks_without_a_log(
    checkpoint: SparkDirectory, write: dict[str, Any]
):
    store = Store()
    check_remote(store, checkpoint, **({"format": "parquet"} | write))
    assert store.asked == []


MISSING = 'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "s3"'


def test_an_unreachable_store_is_reported_with_the_missing_driver():
    ways_out = r"spark\.hadoop\.fs\.s3\.impl.*storageDir"
    with (
        pytest.raises(CannotRun, match=ways_out) as refused,
        explain_no_file_system(CHECKPOINT),
    ):
        raise SparkRuntimeException(MISSING)
    assert refused.value.error == "NoSuchFileSystem"


def test_other_errors_are_raised_unchanged():
    with (
        pytest.raises(SparkRuntimeException, match="no disk"),
        explain_no_file_system(CHECKPOINT),
    ):
        raise SparkRuntimeException("no disk")
    local = SparkDirectory(url="file:///c", local=Path("/c"))
    with (
        pytest.raises(SparkRuntimeException, match="No FileSystem"),
        explain_no_file_system(local),
    ):
        raise SparkRuntimeException(MISSING)

"""A file sink whose log is ahead of the checkpoint is refused."""

from pathlib import Path

import pytest

from stoker.core.failpoints import armed
from stoker.core.graph import FormatWrite, Sink
from stoker.engine.failures import CannotRun
from stoker.engine.region.locations import Place
from stoker.engine.streams.sink_check import check_sink_position
from stoker.engine.streams.sink_log import fill_log


def numbers_in(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()


def check(root: Path) -> None:
    write = FormatWrite(format="parquet", path=str(root / "out"))
    place = Place(url=(root / "checkpoint").as_uri(), local=root / "checkpoint")
    check_sink_position(Sink(name="out", input="raw", write=write), place)


def test_a_batch_that_was_written_and_not_committed_is_fine(tmp_path: Path):
    numbers_in(tmp_path / "out" / "_spark_metadata", "0", "1", "9.compact", "10", ".10.crc")
    numbers_in(tmp_path / "checkpoint" / "commits", "8", "9", ".9.crc")
    numbers_in(tmp_path / "checkpoint" / "offsets", "8", "9", "10", ".10.crc")
    check(tmp_path)


def test_a_batch_that_was_written_and_that_the_checkpoint_has_no_plan_of_is_refused(
    tmp_path: Path,
):
    """Planned anew it may hold more than what was written, and Spark passes over all of it."""
    numbers_in(tmp_path / "out" / "_spark_metadata", "9.compact", "10")
    numbers_in(tmp_path / "checkpoint" / "commits", "9")
    numbers_in(tmp_path / "checkpoint" / "offsets", "9")
    with pytest.raises(CannotRun, match=r"batches up to 10 .* is at batch 9"):
        check(tmp_path)


def test_a_first_start_in_a_directory_with_a_single_batch_is_refused(tmp_path: Path):
    numbers_in(tmp_path / "out" / "_spark_metadata", "0")
    with pytest.raises(CannotRun, match="has no batch yet"):
        check(tmp_path)
    numbers_in(tmp_path / "checkpoint" / "offsets", "0")
    check(tmp_path)


def test_a_log_that_is_further_on_is_refused(tmp_path: Path):
    numbers_in(tmp_path / "out" / "_spark_metadata", "9.compact", "11")
    numbers_in(tmp_path / "checkpoint" / "commits", "9")
    with pytest.raises(CannotRun, match=r"batches up to 11 .* is at batch 9"):
        check(tmp_path)


def test_a_first_start_in_a_used_directory_is_refused_and_in_a_new_one_is_not(tmp_path: Path):
    check(tmp_path)
    numbers_in(tmp_path / "out" / "_spark_metadata", "0", "1")
    with pytest.raises(CannotRun, match="has no batch yet"):
        check(tmp_path)


@pytest.mark.parametrize(
    ("committed", "log"),
    [
        (0, ["0"]),
        (8, ["0", "1", "2", "3", "4", "5", "6", "7", "8"]),
        (9, ["9.compact"]),
        (41, ["39.compact", "40", "41"]),
    ],
)
def test_a_new_directory_of_a_job_that_goes_on_has_a_log_of_the_batches_before(
    tmp_path: Path, committed: int, log: list[str]
):
    """Otherwise Spark fails at its next compaction, and whoever reads the output at once."""
    numbers_in(tmp_path / "checkpoint" / "commits", str(committed))
    check(tmp_path)
    written = sorted((tmp_path / "out" / "_spark_metadata").iterdir(), key=lambda path: path.name)
    assert sorted(path.name for path in written) == sorted(log)
    assert {path.read_bytes() for path in written} == {b"v1"}
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["_spark_metadata"]


def log_of(root: Path, *batches: str) -> Path:
    """Each batch with an entry of its name."""
    log = root / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    for name in batches:
        (log / name).write_text(f"v1\nentry {name}")
    return log


def test_a_batch_that_only_the_checkpoint_has_is_put_into_the_log_as_an_empty_one(tmp_path: Path):
    """As after a division of state; Spark fails for good when it compacts a log with a gap."""
    log = log_of(tmp_path, "0", "1", "2")
    numbers_in(tmp_path / "checkpoint" / "commits", "2", "3", "4")
    check(tmp_path)
    assert {path.name for path in log.iterdir()} == {"0", "1", "2", "3", "4"}
    assert (log / "2").read_text() == "v1\nentry 2"
    assert (log / "3").read_text() == (log / "4").read_text() == "v1"


def test_one_who_dies_in_between_is_followed_by_one_who_completes_it(tmp_path: Path):
    log = log_of(tmp_path, *map(str, range(8)))
    numbers_in(tmp_path / "checkpoint" / "commits", "10")
    hits: list[int] = []

    def die_at_the_second() -> None:
        hits.append(1)
        if len(hits) == 2:
            raise RuntimeError("dead")

    with armed("sink-log.before-a-batch", die_at_the_second), pytest.raises(RuntimeError):
        fill_log(log, 10)
    assert not (log / "9.compact").exists()
    check(tmp_path)
    assert (log / "9.compact").exists()
    assert (log / "10").exists()


def test_one_that_spark_would_have_compacted_holds_all_before_it(tmp_path: Path):
    log = log_of(tmp_path, "9.compact", *map(str, range(10, 19)))
    numbers_in(tmp_path / "checkpoint" / "commits", "20")
    check(tmp_path)
    entries = (log / "19.compact").read_text().splitlines()
    assert entries == ["v1", "entry 9.compact", *(f"entry {n}" for n in range(10, 19))]
    assert (log / "20").read_text() == "v1"
    assert not (log / "19").exists()


@pytest.mark.parametrize(
    ("compacted", "missing", "name"),
    [(4, 9, "9.compact"), (14, 19, "19"), (32, 43, "43.compact"), (19, 29, "29")],
)
def test_the_interval_is_the_one_that_the_log_shows(
    tmp_path: Path, compacted: int, missing: int, name: str
):
    log = log_of(tmp_path, f"{compacted}.compact", *map(str, range(compacted + 1, missing)))
    numbers_in(tmp_path / "checkpoint" / "commits", str(missing))
    check(tmp_path)
    assert (log / name).exists()


def test_other_formats_and_a_log_that_is_there_are_left_alone(tmp_path: Path):
    numbers_in(tmp_path / "checkpoint" / "commits", "3")
    place = Place(url=(tmp_path / "checkpoint").as_uri(), local=tmp_path / "checkpoint")
    table = FormatWrite(format="delta", path=str(tmp_path / "table"))
    check_sink_position(Sink(name="out", input="raw", write=table), place)
    assert not (tmp_path / "table").exists()
    numbers_in(tmp_path / "out" / "_spark_metadata", "2", "3")
    check(tmp_path)
    assert len(list((tmp_path / "out" / "_spark_metadata").iterdir())) == 2

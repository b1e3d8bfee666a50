"""A file sink whose log is ahead of the checkpoint is refused."""

from pathlib import Path

import pytest

from stoker.core.graph import FormatWrite, Sink
from stoker.engine.failures import CannotRun
from stoker.engine.places import Place
from stoker.engine.sink_position import check_sink_position


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


def test_other_formats_and_a_log_that_is_there_are_left_alone(tmp_path: Path):
    numbers_in(tmp_path / "checkpoint" / "commits", "3")
    place = Place(url=(tmp_path / "checkpoint").as_uri(), local=tmp_path / "checkpoint")
    table = FormatWrite(format="delta", path=str(tmp_path / "table"))
    check_sink_position(Sink(name="out", input="raw", write=table), place)
    assert not (tmp_path / "table").exists()
    numbers_in(tmp_path / "out" / "_spark_metadata", "2", "3")
    check(tmp_path)
    assert len(list((tmp_path / "out" / "_spark_metadata").iterdir())) == 2

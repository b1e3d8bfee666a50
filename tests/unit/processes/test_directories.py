"""Where a process keeps its files, and which of them it leaves behind."""

from pathlib import Path

import pytest

from stoker.config.processes import ProcessOptions
from stoker.core.errors import StartupFailed
from stoker.core.ids import ResourceId
from stoker.processes.directories import Directories, directories_for

NAME = ResourceId("master-1")


def use(directories: Directories) -> None:
    (directories.work / "uploads").mkdir()
    (directories.work / "uploads" / "left").write_text("x")
    (directories.work / "address.json").write_text("{}")


def test_the_directory_of_an_id_is_below_the_working_directory(tmp_path: Path) -> None:
    """Each process has a directory of its own (ENTRY-06)."""
    with directories_for(
        NAME, ProcessOptions(working_dir=tmp_path), is_permanent=True
    ) as directories:
        assert directories.work == tmp_path / "master-1"
        assert directories.work.is_dir()
        assert directories.logs.is_dir()


@pytest.mark.parametrize("fails", [False, True])
def test_the_directory_of_a_fixed_id_is_kept_for_the_next_instance(
    tmp_path: Path, fails: bool
) -> None:
    """The process returns under the same id (ENTRY-07)."""
    options = ProcessOptions(working_dir=tmp_path)
    try:
        with directories_for(NAME, options, is_permanent=True) as directories:
            use(directories)
            if fails:
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert (tmp_path / "master-1" / "uploads" / "left").read_text() == "x"


def test_only_the_logs_of_a_generated_id_are_kept(tmp_path: Path) -> None:
    """A generated id is never used again (ENTRY-07)."""
    options = ProcessOptions(working_dir=tmp_path)
    with directories_for(NAME, options, is_permanent=False) as directories:
        use(directories)
        (directories.logs / "spark.log").write_text("why it broke")
    assert [path.name for path in (tmp_path / "master-1").iterdir()] == ["log"]
    with directories_for(ResourceId("master-2"), options, is_permanent=False) as directories:
        use(directories)
    assert not (tmp_path / "master-2").exists()


def test_logs_elsewhere_are_left_alone(tmp_path: Path) -> None:
    options = ProcessOptions(working_dir=tmp_path / "work", log_dir=tmp_path / "logs")
    with directories_for(NAME, options, is_permanent=False) as directories:
        use(directories)
        (directories.logs / "spark.log").write_text("x")
    assert (tmp_path / "logs" / "spark.log").exists()
    assert list((tmp_path / "work").iterdir()) == []


def test_a_directory_that_cannot_be_made_stops_the_start_with_a_hint(tmp_path: Path) -> None:
    """The error names the directory and the option (ENTRY-02)."""
    (tmp_path / "work").write_text("a file")
    options = ProcessOptions(working_dir=tmp_path / "work")
    with (
        pytest.raises(StartupFailed, match=r"process\.working-dir"),
        directories_for(NAME, options, is_permanent=True),
    ):
        pass


def test_after_the_shutdown_of_the_cluster_only_logs_are_kept(tmp_path: Path) -> None:
    """This holds also for a process with a fixed id (ENTRY-07)."""
    options = ProcessOptions(working_dir=tmp_path)
    with directories_for(NAME, options, is_permanent=True, is_over=lambda: True) as directories:
        use(directories)
        (directories.logs / "spark.log").write_text("x")
    assert [path.name for path in (tmp_path / "master-1").iterdir()] == ["log"]

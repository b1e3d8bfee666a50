"""Where a process keeps its files, and which of them it leaves behind."""

import os
from pathlib import Path

import pytest

from stoker.config.processes import ClusterOptions, ProcessOptions
from stoker.core.errors import StartupFailed
from stoker.core.ids import ResourceId
from stoker.processes.directories import (
    Directories,
    claim_cluster_directories,
    directories_for,
    secret_file,
)
from stoker.security.options import InternalSecurityOptions

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


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_directories_of_a_process_are_for_its_user_alone(tmp_path: Path) -> None:
    """Whatever the umask says, and also if an earlier release made them open to all."""
    before = os.umask(0)
    try:
        (tmp_path / "work" / "master-1").mkdir(parents=True)
        (tmp_path / "work" / "master-1" / "left").write_text("x")
        options = ProcessOptions(working_dir=tmp_path / "work", log_dir=tmp_path / "logs")
        with directories_for(NAME, options, is_permanent=True) as directories:
            assert mode_of(directories.work) == mode_of(directories.logs) == 0o700
        claim_cluster_directories(
            ClusterOptions(
                storage=str(tmp_path / "storage"),
                high_availability=f"embedded://{tmp_path / 'records'}",
            )
        )
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "storage") == mode_of(tmp_path / "records") == 0o700


def test_a_storage_in_which_everybody_may_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    tmp_path.chmod(0o777)
    with pytest.raises(StartupFailed, match=r"may write in .*chmod o= .*storageDir"):
        claim_cluster_directories(ClusterOptions(storage=str(tmp_path)))


def test_a_storage_into_which_everybody_may_look_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "jobs").mkdir()
    tmp_path.chmod(0o755)
    claim_cluster_directories(ClusterOptions(storage=f"file://{tmp_path}"))
    assert f"chmod o= {tmp_path}" in caplog.text
    assert mode_of(tmp_path) == 0o755


def test_directories_elsewhere_are_not_touched() -> None:
    claim_cluster_directories(
        ClusterOptions(storage="s3://bucket/stoker", high_availability="zookeeper://zk1/stoker")
    )


def test_the_secret_of_a_cluster_is_beside_its_records(tmp_path: Path) -> None:
    here = ClusterOptions(storage=str(tmp_path))
    assert secret_file(here, InternalSecurityOptions()) == tmp_path / "cluster-secret"
    elsewhere = ClusterOptions(storage="s3://bucket", high_availability="zookeeper://zk1/stoker")
    assert secret_file(elsewhere, InternalSecurityOptions()).parent == Path.home() / ".stoker"
    named = InternalSecurityOptions(secret=tmp_path / "mine")
    assert secret_file(here, named) == tmp_path / "mine"


def test_the_working_directory_has_a_plain_name(tmp_path: Path) -> None:
    """Spark would misread commas and spaces in the paths that it gets (ENTRY-06)."""
    odd = tmp_path / "a, b"
    options = ProcessOptions(working_dir=odd)
    with directories_for(NAME, options, is_permanent=False) as directories:
        assert not {" ", ","} & set(str(directories.work))
        assert directories.work.resolve() == odd / "master-1"
        # Users read these paths in messages.
        assert directories.logs == odd / "master-1" / "log"
        use(directories)
    assert not directories.work.is_symlink()
    assert list(odd.iterdir()) == []

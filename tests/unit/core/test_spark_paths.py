"""Whether a process can reach the directory in which a job was submitted."""

from pathlib import Path

import msgspec
import pytest

from stoker.core import spark_paths
from stoker.core.graph import CallerDirectory
from stoker.core.spark_paths import describe_directory, find_here, is_relative, this_machine


@pytest.mark.parametrize("path", ["x", "in/x.csv", "./x", "../x", "a b/ü%20", "[x]*"])
def test_a_path_without_root_and_scheme_is_relative(path: str) -> None:
    assert is_relative(path)


@pytest.mark.parametrize("path", ["", "/x", "file:/x", "file:///x", "s3a://b/x", "hdfs:x"])
def test_an_absolute_path_and_a_url_are_not_relative(path: str) -> None:
    assert not is_relative(path)


def test_the_directory_is_found_on_the_machine_of_the_caller(tmp_path: Path) -> None:
    caller = describe_directory(tmp_path)
    assert find_here(caller) == tmp_path
    # Even when the file system changes its numbers, as some do.
    assert find_here(msgspec.structs.replace(caller, inode=caller.inode + 1)) == tmp_path


def test_a_directory_of_the_same_name_on_another_machine_is_another_one(tmp_path: Path) -> None:
    elsewhere = CallerDirectory(path=str(tmp_path), machine="another", inode=1)
    assert find_here(elsewhere) is None


def test_a_shared_directory_is_found_on_another_machine(tmp_path: Path, monkeypatch) -> None:
    caller = msgspec.structs.replace(describe_directory(tmp_path), machine="another")
    monkeypatch.setattr(spark_paths, "_SMALL_INODES", 0)
    assert find_here(caller) == tmp_path


def test_the_root_of_a_file_system_does_not_identify_a_directory(
    tmp_path: Path, monkeypatch
) -> None:
    """These have the same few inode numbers on every machine."""
    caller = msgspec.structs.replace(describe_directory(tmp_path), machine="another")
    monkeypatch.setattr(spark_paths, "_SMALL_INODES", caller.inode)
    assert find_here(caller) is None


def test_a_directory_that_is_gone_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for name in ("gone", "file", "nul\0"):
        assert find_here(CallerDirectory(path=str(tmp_path / name), machine=this_machine())) is None


def test_a_job_that_says_only_the_path_is_believed(tmp_path: Path) -> None:
    """So do programs that were stored before the machine was."""
    assert find_here(CallerDirectory(path=str(tmp_path))) == tmp_path

"""Directories and files that other users of the machine cannot use."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.osproc.private_files import (
    Exposure,
    claim_directory,
    exposure_of,
    private_umask,
    with_umask,
)


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def directory_with(path: Path, mode: int, *, content: bool = False) -> Path:
    path.mkdir()
    if content:
        (path / "file").write_text("x")
    path.chmod(mode)
    return path


@given(st.integers(0, 0o777))
def test_only_the_permissions_of_others_count(mode: int) -> None:
    assert (exposure_of(mode) is Exposure.NONE) == (mode & 0o007 == 0)
    assert (exposure_of(mode) is Exposure.WRITE) == (mode & 0o002 != 0)


def test_a_missing_directory_is_made_private_with_all_above_it(tmp_path: Path) -> None:
    assert claim_directory(tmp_path / "a" / "b", is_ours=False) is Exposure.NONE
    assert mode_of(tmp_path / "a") == mode_of(tmp_path / "a" / "b") == 0o700


def test_an_empty_directory_is_made_private(tmp_path: Path) -> None:
    place = directory_with(tmp_path / "empty", 0o755)
    assert claim_directory(place, is_ours=False) is Exposure.NONE
    assert mode_of(place) == 0o700


def test_a_directory_with_content_is_changed_only_if_it_is_certainly_ours(tmp_path: Path) -> None:
    place = directory_with(tmp_path / "full", 0o755, content=True)
    assert claim_directory(place, is_ours=False) is Exposure.READ
    assert mode_of(place) == 0o755
    assert claim_directory(place, is_ours=True) is Exposure.NONE
    assert mode_of(place) == 0o700


def test_a_directory_that_all_may_write_is_reported_even_if_it_is_sticky(tmp_path: Path) -> None:
    place = directory_with(tmp_path / "full", 0o1777, content=True)
    assert claim_directory(place, is_ours=False) is Exposure.WRITE


def test_permissions_of_a_chosen_group_are_kept(tmp_path: Path) -> None:
    place = directory_with(tmp_path / "group", 0o770)
    assert claim_directory(place, is_ours=True) is Exposure.NONE
    assert mode_of(place) == 0o770


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError):
            claim_directory(place, is_ours=True)


def test_the_umask_of_before_returns_at_the_end(tmp_path: Path) -> None:
    first = os.umask(0o022)
    try:
        with private_umask() as before:
            assert before == 0o022
            (tmp_path / "private").write_text("x")
        (tmp_path / "open").write_text("x")
    finally:
        os.umask(first)
    assert mode_of(tmp_path / "private") == 0o600
    assert mode_of(tmp_path / "open") == 0o644


def test_a_command_runs_with_the_umask_that_it_was_given(tmp_path: Path) -> None:
    with private_umask():
        command = with_umask("027", "touch", str(tmp_path / "a b"), str(tmp_path / "-c"))
        subprocess.run(command, check=True)
        subprocess.run(with_umask(None, "touch", str(tmp_path / "d")), check=True)
    assert [mode_of(tmp_path / name) for name in ("a b", "-c", "d")] == [0o640, 0o640, 0o600]

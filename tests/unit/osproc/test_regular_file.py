"""Files that hostile code may have replaced are opened at once, or not at all."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.osproc.regular_file import (
    FileTooLarge,
    NotRegular,
    open_regular,
    open_regular_to_append,
    read_regular,
)

REPLACEMENTS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "directory": os.mkdir,
    "link to a device": lambda path: os.symlink("/dev/zero", path),
    "link to a file": lambda path: os.symlink(__file__, path),
    "link to nothing": lambda path: os.symlink("/nowhere", path),
}


def test_a_regular_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1234")
    assert read_regular(tmp_path / "file", 4) == b"1234"


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    with pytest.raises(FileTooLarge, match="larger than 4 bytes"):
        read_regular(tmp_path / "file", 4)


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "file")


@pytest.mark.parametrize("kind", REPLACEMENTS)
def test_anything_else_is_not_opened_for_reading(tmp_path: Path, kind: str) -> None:
    REPLACEMENTS[kind](tmp_path / "file")
    with pytest.raises(NotRegular, match="not a regular file"):
        open_regular(tmp_path / "file")


@pytest.mark.parametrize("kind", REPLACEMENTS)
def test_anything_else_is_not_opened_for_appending(tmp_path: Path, kind: str) -> None:
    REPLACEMENTS[kind](tmp_path / "file")
    with pytest.raises(OSError, match=r"not a regular file|directory"):
        open_regular_to_append(tmp_path / "file", 0o600)


def test_a_file_is_created_and_appended_to(tmp_path: Path) -> None:
    for word in (b"one ", b"two"):
        descriptor = open_regular_to_append(tmp_path / "file", 0o600)
        os.write(descriptor, word)
        os.close(descriptor)
    assert (tmp_path / "file").read_bytes() == b"one two"

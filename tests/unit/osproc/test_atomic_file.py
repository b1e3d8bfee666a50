"""Small files that are written whole or not at all."""

import stat
from pathlib import Path

import pytest

from stoker.osproc.atomic_file import write_atomically


@pytest.mark.parametrize("sync", [False, True])
def test_the_new_content_replaces_the_old(tmp_path: Path, sync: bool) -> None:
    path = tmp_path / "file"
    for content in (b"old content", b"new"):
        write_atomically(path, content, sync=sync)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_the_old_content_stays_until_the_rename(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    seen: list[bytes] = []
    write_atomically(path, b"new", before_rename=lambda: seen.append(path.read_bytes()))
    assert seen == [b"old"]
    assert path.read_bytes() == b"new"


def test_a_failure_leaves_the_old_content_and_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail() -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        write_atomically(path, b"new", before_rename=fail)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_with_secrets_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"secret", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_temporary_file_of_a_crashed_write_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def crash() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"half", before_rename=crash)
    assert not path.exists()
    write_atomically(path, b"whole", mode=0o600)
    assert path.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [path]


def test_concurrent_writers_have_separate_temporary_files(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def write_meanwhile() -> None:
        write_atomically(path, b"another writer")

    write_atomically(path, b"last", many_writers=True, before_rename=write_meanwhile)
    assert path.read_bytes() == b"last"

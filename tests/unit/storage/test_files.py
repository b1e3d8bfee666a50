import errno
import os
from pathlib import Path

import pytest

from stoker.core.errors import InvalidOption, StartupFailed, StorageUnavailable
from stoker.storage.files import FileStorage
from stoker.storage.memory import MemoryStorage
from stoker.storage.open import open_storage


def _failing_with(code: int):
    def fail(_descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def _files_in(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file()]


async def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    storage = FileStorage(tmp_path)
    monkeypatch.setattr(os, "fsync", _failing_with(errno.ENOSPC))
    with pytest.raises(StorageUnavailable, match=r"jobs/a.*No space left.*disk is full"):
        await storage.write("a/jobs/a", b"content")


async def test_a_failed_write_leaves_the_old_content_and_no_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    storage = FileStorage(tmp_path)
    await storage.write("jobs/a", b"old")
    monkeypatch.setattr(os, "fsync", _failing_with(errno.EIO))
    with pytest.raises(StorageUnavailable):
        await storage.write("jobs/a", b"new")
    with pytest.raises(StorageUnavailable):
        await storage.create("jobs/b", b"new")
    assert await storage.read("jobs/a") == b"old"
    assert _files_in(tmp_path) == ["a"]


async def test_an_unfinished_file_of_a_dead_process_is_not_listed(tmp_path: Path):
    storage = FileStorage(tmp_path)
    await storage.write("jobs/a", b"")
    (tmp_path / "jobs" / ".stoker-unfinished-1").write_bytes(b"half")
    assert await storage.list("jobs") == ["jobs/a"]


async def test_a_directory_that_went_away_is_not_an_empty_storage(tmp_path: Path):
    storage = FileStorage(tmp_path / "mounted")
    for call in (storage.list(""), storage.read("a"), storage.write("a/b", b"")):
        with pytest.raises(StorageUnavailable, match="mounted"):
            await call
    assert not (tmp_path / "mounted").exists()


async def test_deleted_jobs_leave_no_folders(tmp_path: Path):
    storage = FileStorage(tmp_path)
    await storage.write("jobs/a/outcomes/1", b"")
    await storage.delete("jobs/a/outcomes/1")
    assert os.listdir(tmp_path) == []


def test_the_directory_is_made_when_it_is_first_used(tmp_path: Path):
    # X-STORE-10
    open_storage(str(tmp_path / "new" / "storage"))
    assert (tmp_path / "new" / "storage").is_dir()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StartupFailed, match="file/storage cannot be made"):
        open_storage(str(tmp_path / "file" / "storage"))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("relative/path", "absolute path"),
        ("file://host/path", "file:///absolute/path"),
        ("nosuch://bucket", "nosuch"),
    ],
)
def test_a_bad_url_is_explained(url: str, message: str):
    with pytest.raises(InvalidOption, match=message):
        open_storage(url)


async def test_the_memory_storage_fails_on_demand():
    storage = MemoryStorage()
    storage.fail_next("write", errno.ENOSPC)
    with pytest.raises(StorageUnavailable, match="disk is full"):
        await storage.write("a", b"")
    await storage.write("a", b"")
    storage.go_away()
    with pytest.raises(StorageUnavailable):
        await storage.read("a")
    storage.come_back()
    assert await storage.read("a") == b""

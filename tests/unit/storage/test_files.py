import errno
import os
from pathlib import Path

import pytest

from stoker.core.errors import (
    InvalidInput,
    InvalidOption,
    NotFound,
    StartupFailed,
    StorageUnavailable,
)
from stoker.storage.files import FileStorage
from stoker.storage.memory import MemoryStorage
from stoker.storage.open import open_place, open_storage


def _failing_with(code: int):
    def fail(_descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def _files_in(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file()]


async def test_new_folders_and_files_are_for_their_owner_alone(tmp_path: Path):
    """Also in processes with the umask of the user, such as runners."""
    before = os.umask(0o022)
    try:
        storage = open_storage(str(tmp_path / "new" / "storage"))
        await storage.write("rows/a/1.json", b"x")
        await storage.create("rows/b.json", b"x")
        await storage.upload(tmp_path / "new" / "storage" / "rows" / "b.json", "c")
    finally:
        os.umask(before)
    made = list(tmp_path.rglob("*"))
    assert len(made) == 7
    assert [path for path in made if path.stat().st_mode & 0o077] == []


async def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    storage = FileStorage(tmp_path)
    monkeypatch.setattr(os, "fsync", _failing_with(errno.ENOSPC))
    with pytest.raises(StorageUnavailable, match=r"jobs/a.*No space left.*disk is full"):
        await storage.write("a/jobs/a", b"content")


async def test_a_failed_write_leaves_the_old_content_and_no_partial_file(
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


async def test_a_directory_that_disappeared_is_not_mistaken_for_an_empty_storage(tmp_path: Path):
    storage = FileStorage(tmp_path / "mounted")
    calls = (
        storage.list(""),
        storage.read("a"),
        storage.exists("a"),
        storage.write("a/b", b""),
        storage.pin({"a": "pins/b/a"}),
        storage.delete("a"),
        storage.delete_tree("a"),
    )
    for call in calls:
        with pytest.raises(StorageUnavailable, match="mounted"):
            await call
    assert not (tmp_path / "mounted").exists()


async def test_deleted_jobs_leave_no_folders(tmp_path: Path):
    storage = FileStorage(tmp_path)
    await storage.write("jobs/a/outcomes/1", b"")
    await storage.delete("jobs/a/outcomes/1")
    assert os.listdir(tmp_path) == []


def test_the_directory_is_made_when_it_is_first_used(tmp_path: Path):
    """Its parent directories are made as well (X-STORE-10)."""
    open_storage(str(tmp_path / "new" / "storage"))
    assert (tmp_path / "new" / "storage").is_dir()


async def test_reading_creates_no_directory_and_the_first_write_creates_it(tmp_path: Path):
    place = open_place(str(tmp_path / "above" / "place"))
    assert (await place.list(""), await place.modified("x")) == ([], {})
    assert not await place.exists("x/y")
    for look in (place.read("x/y"), place.size("x/y"), place.download("x/y", tmp_path / "copy")):
        with pytest.raises(NotFound):
            await look
    await place.delete("x/y")
    await place.delete_tree("x")
    assert os.listdir(tmp_path) == []
    await place.write("x/y", b"1")
    assert await place.list("") == ["x/y"]


async def test_an_impossible_directory_reads_as_empty_and_a_write_names_the_reason(
    tmp_path: Path,
):
    (tmp_path / "file").write_bytes(b"")
    for path in ("file", "file/below"):
        place = open_place(str(tmp_path / path))
        assert await place.list("") == []
        with pytest.raises(NotFound):
            await place.read("x")
        with pytest.raises(StartupFailed, match="cannot be made"):
            await place.write("x", b"")


def test_a_directory_that_cannot_be_created_is_named_in_the_error(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StartupFailed, match="file/storage cannot be made"):
        open_storage(str(tmp_path / "file" / "storage"))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("relative/path", "absolute path"),
        ("file://host/path", "file:///absolute/path"),
        ("local:///path", "file:///absolute/path"),
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


async def test_a_folder_with_concurrent_writes_is_deleted_after_they_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    storage = FileStorage(tmp_path)
    await storage.write("jobs/a/state/1.delta", b"content")
    late = [tmp_path / "jobs/a/state/2.delta", tmp_path / "jobs/a/state/3.delta"]
    rmdir, unlink = os.rmdir, os.unlink

    def rmdir_after_a_late_write(path: str, *, dir_fd: int | None = None) -> None:
        if late and path == "state":
            late.pop().write_bytes(b"late")
        rmdir(path, dir_fd=dir_fd)

    def unlink_what_is_just_gone(path: str, *, dir_fd: int | None = None) -> None:
        unlink(path, dir_fd=dir_fd)
        if path == "1.delta":
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    monkeypatch.setattr(os, "rmdir", rmdir_after_a_late_write)
    monkeypatch.setattr(os, "unlink", unlink_what_is_just_gone)
    await storage.delete_tree("jobs/a")
    assert not late
    assert not (tmp_path / "jobs").exists()


async def test_the_deletion_of_a_folder_that_cannot_be_deleted_is_not_retried_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    storage = FileStorage(tmp_path)
    await storage.write("jobs/a/state/1.delta", b"content")
    tries: list[str] = []

    def refuse(path: str, *, dir_fd: int | None = None) -> None:
        tries.append(path)
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(StorageUnavailable, match="Permission denied"):
        await storage.delete_tree("jobs/a")
    assert tries == ["1.delta"]


@pytest.mark.parametrize("how", ["write", "create"])
async def test_a_file_and_its_new_folders_are_durable_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
):
    storage = FileStorage(tmp_path)
    synced: list[str] = []

    def sync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        synced.append("content" if Path(path).is_file() else path)

    monkeypatch.setattr(os, "fsync", sync)
    await getattr(storage, how)("a/b/c", b"1")
    assert synced == ["content", f"{tmp_path}/a/b", f"{tmp_path}/a", str(tmp_path)]
    synced.clear()
    await getattr(storage, how)("a/b/d", b"1")
    assert synced == ["content", f"{tmp_path}/a/b"], "the folders were made durable before"
    assert sorted(os.listdir(tmp_path / "a" / "b")) == ["c", "d"]


@pytest.mark.parametrize("has_links", [True, False])
async def test_a_pin_replaces_a_copy_and_never_writes_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
):
    """The copy may share its bytes with a live checkpoint."""
    storage = FileStorage(tmp_path)
    await storage.write("live/1", b"one")
    await storage.write("live/2", b"two")
    await storage.pin({"live/1": "pins/x"})
    link = os.link

    def link_after_another_pin(source: Path, target: Path) -> None:
        (tmp_path / "pins" / "x").unlink(missing_ok=True)
        link(tmp_path / "live" / "1", tmp_path / "pins" / "x")
        if not has_links:
            raise OSError(errno.EMLINK, os.strerror(errno.EMLINK))
        link(source, target)

    monkeypatch.setattr(os, "link", link_after_another_pin)
    await storage.pin({"live/2": "pins/x"})
    assert await storage.read("live/1") == b"one"
    assert await storage.read("pins/x") == b"two"
    assert sorted(_files_in(tmp_path)) == ["1", "2", "x"]


async def test_a_file_that_is_pinned_twice_leaves_no_temporary_file(tmp_path: Path):
    storage = FileStorage(tmp_path)
    await storage.write("live/1", b"one")
    for _ in range(2):
        await storage.pin({"live/1": "pins/x"})
    assert sorted(_files_in(tmp_path)) == ["1", "x"]


@pytest.mark.parametrize("path", ["file/a", "file/a/b"])
@pytest.mark.parametrize("mounted", [True, False])
async def test_a_write_below_a_file_is_refused_with_the_reason(
    tmp_path: Path, path: str, mounted: bool
):
    storage = FileStorage(tmp_path, made_by_writing=not mounted)
    await storage.write("file", b"1")
    source = tmp_path / "source"
    source.write_bytes(b"2")
    for write in (
        storage.write(path, b""),
        storage.create(path, b""),
        storage.upload(source, path),
        storage.adopt(source, path),
        storage.pin({"file": path}),
    ):
        with pytest.raises(InvalidInput, match=r"nothing can be written in .*/file.* is a file"):
            await write
    with pytest.raises(NotFound):
        await storage.read(path)
    assert await storage.read("file") == b"1"

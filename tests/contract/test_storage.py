"""The contract of Storage; STORE-01, STORE-10 and X-STORE-10 rely on it."""

import asyncio
import secrets
import time
from pathlib import Path

import pytest

from stoker.core.errors import InvalidInput, KeyExists, NotFound
from stoker.metrics.registry import unread_metrics
from stoker.storage.contract import Storage
from stoker.storage.measured import MeasuredStorage
from stoker.storage.memory import MemoryStorage
from stoker.storage.open import open_place, open_storage


@pytest.fixture(params=["memory", "measured", "file", "place", "fsspec"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    match request.param:
        case "memory":
            return MemoryStorage()
        case "measured":
            return MeasuredStorage(MemoryStorage(), unread_metrics())
        case "file":
            return open_storage((tmp_path / "storage").as_uri())
        case "place":
            return open_place(str(tmp_path / "above" / "storage"))
        case _:
            return open_storage(f"memory://{secrets.token_hex(4)}/storage")


async def test_a_written_file_is_read_back(storage: Storage):
    await storage.write("jobs/a/graph", b"\0content")
    assert await storage.read("jobs/a/graph") == b"\0content"
    assert await storage.size("jobs/a/graph") == 8
    assert await storage.exists("jobs/a/graph")


async def test_a_later_write_replaces_the_content(storage: Storage):
    await storage.write("a", b"first")
    await storage.write("a", b"2nd")
    assert await storage.read("a") == b"2nd"
    assert await storage.list("") == ["a"]


async def test_an_empty_file_is_a_file(storage: Storage):
    await storage.write("folder/empty", b"")
    assert await storage.exists("folder/empty")
    assert await storage.read("folder/empty") == b""


async def test_a_file_is_created_once(storage: Storage):
    await storage.create("outcomes/a", b"first")
    with pytest.raises(KeyExists):
        await storage.create("outcomes/a", b"second")
    assert await storage.read("outcomes/a") == b"first"


async def test_exactly_one_of_several_concurrent_creations_succeeds(storage: Storage):
    contents = [f"{number}".encode() for number in range(8)]
    results = await asyncio.gather(
        *(storage.create("winner/name", content) for content in contents), return_exceptions=True
    )
    winners = [content for content, result in zip(contents, results, strict=True) if result is None]
    assert winners == [await storage.read("winner/name")]
    assert sum(isinstance(result, KeyExists) for result in results) == 7


async def test_reading_an_absent_file_raises_not_found(storage: Storage, tmp_path: Path):
    with pytest.raises(NotFound, match="absent"):
        await storage.read("folder/absent")
    with pytest.raises(NotFound):
        await storage.size("absent")
    with pytest.raises(NotFound):
        await storage.download("absent", tmp_path / "target")
    assert not await storage.exists("absent")
    assert not (tmp_path / "target").exists()


async def test_a_folder_is_not_a_file(storage: Storage):
    await storage.write("folder/file", b"")
    assert not await storage.exists("folder")


async def test_files_are_listed_at_any_depth_and_sorted(storage: Storage):
    for path in ("jobs/b/1", "jobs/a/deep/er/2", "jobs/a/1", "jobs-of-others/1", "z"):
        await storage.write(path, b"")
    assert await storage.list("jobs") == ["jobs/a/1", "jobs/a/deep/er/2", "jobs/b/1"]
    assert await storage.list("jobs/a/deep") == ["jobs/a/deep/er/2"]
    assert await storage.list("absent") == []
    assert len(await storage.list("")) == 5


async def test_deleting_an_absent_file_is_no_error(storage: Storage):
    await storage.delete("absent/file")
    await storage.delete_tree("absent/folder")


async def test_a_deleted_file_is_gone_and_its_neighbours_stay(storage: Storage):
    await storage.write("jobs/a/1", b"")
    await storage.write("jobs/a/2", b"")
    await storage.delete("jobs/a/1")
    assert await storage.list("") == ["jobs/a/2"]
    await storage.create("jobs/a/1", b"again")


async def test_a_deleted_tree_is_gone_and_its_neighbours_stay(storage: Storage):
    for path in ("jobs/a/1", "jobs/a/b/2", "jobs/ab/3"):
        await storage.write(path, b"")
    await storage.delete_tree("jobs/a")
    assert await storage.list("") == ["jobs/ab/3"]


async def test_local_files_are_uploaded_and_downloaded(storage: Storage, tmp_path: Path):
    source = tmp_path / "source"
    source.write_bytes(b"x" * 300_000)
    await storage.upload(source, "blobs/x")
    await storage.download("blobs/x", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == source.read_bytes()
    assert await storage.size("blobs/x") == 300_000


async def test_a_local_file_can_be_moved_into_the_storage(storage: Storage, tmp_path: Path):
    for content in (b"x" * 300_000, b"y"):
        source = tmp_path / "source"
        source.write_bytes(content)
        await storage.adopt(source, "blobs/deep/x")
        assert await storage.read("blobs/deep/x") == content


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../up", "a/../b", "a//b", "a/", "a/./b"])
async def test_a_path_that_leaves_the_storage_is_refused(storage: Storage, path: str):
    with pytest.raises(InvalidInput):
        await storage.write(path, b"")
    with pytest.raises(InvalidInput):
        await storage.delete_tree(path)


async def test_file_names_may_be_any_text(storage: Storage):
    await storage.write("jobs/größe 100%/ü", b"1")
    assert await storage.list("jobs") == ["jobs/größe 100%/ü"]


async def test_a_file_has_a_url(storage: Storage):
    await storage.write("jobs/a", b"")
    assert storage.url("jobs/a").endswith("/jobs/a")
    assert "://" in storage.url("jobs/a")


async def test_files_are_listed_with_the_time_of_their_last_write(storage: Storage):
    """The sweep removes files without a record by their age (STORE-10)."""
    before = time.time()
    await storage.write("jobs/a/graph", b"1")
    await storage.write("jobs/b", b"2")
    await storage.write("results/a", b"3")
    first = await storage.modified("jobs")
    assert sorted(first) == ["jobs/a/graph", "jobs/b"]
    # File systems use the kernel's coarse clock, which is a few milliseconds behind.
    assert all(before - 1 < at < time.time() + 1 for at in first.values())
    await storage.write("jobs/b", b"again")
    second = await storage.modified("")
    assert sorted(second) == ["jobs/a/graph", "jobs/b", "results/a"]
    assert second["jobs/a/graph"] == first["jobs/a/graph"]
    assert second["jobs/b"] >= first["jobs/b"]
    await storage.delete("jobs/b")
    assert sorted(await storage.modified("jobs")) == ["jobs/a/graph"]
    assert await storage.modified("nothing") == {}


async def test_a_pinned_file_outlives_its_source_and_its_replacement(storage: Storage):
    await storage.write("live/1", b"one")
    await storage.write("live/2", b"two")
    await storage.pin({"live/1": "pins/x/1", "live/2": "pins/x/2"})
    await storage.delete("live/1")
    await storage.write("live/2", b"later")
    assert await storage.read("pins/x/1") == b"one"
    assert await storage.read("pins/x/2") == b"two"
    await storage.delete_tree("pins/x")
    assert await storage.list("") == ["live/2"]


async def test_a_deleted_file_cannot_be_pinned(storage: Storage):
    await storage.write("live/1", b"one")
    with pytest.raises(NotFound):
        await storage.pin({"live/1": "pins/1", "live/2": "pins/2"})
    assert await storage.read("live/1") == b"one"


async def test_the_size_of_a_folder_is_that_of_all_files_in_it(storage: Storage):
    for path, size in (("blobs/a/1", 3), ("blobs/a/deep/2", 5), ("blobs/b", 7), ("other", 11)):
        await storage.write(path, b"x" * size)
    assert await storage.total_size("blobs") == 15
    assert await storage.total_size("blobs/a") == 8
    assert await storage.total_size("absent") == 0
    assert await storage.total_size("") == 26


async def test_only_a_local_disk_tells_how_much_is_free(
    storage: Storage, request: pytest.FixtureRequest
):
    await storage.write("a", b"")
    free = await storage.free_bytes()
    is_local = request.node.callspec.params["storage"] in ("file", "place")
    assert (free is not None and free > 0) if is_local else free is None

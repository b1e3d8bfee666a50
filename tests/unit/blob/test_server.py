"""The blob server: how a master stores artifacts."""

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from stoker.blob.keys import path_of
from stoker.blob.options import BlobOptions
from stoker.blob.server import BlobServer
from stoker.blob.transfer import inline
from stoker.core.errors import (
    CorruptContent,
    InvalidInput,
    StartupFailed,
    StorageFull,
    StorageUnavailable,
    TooLarge,
)
from stoker.core.ids import BlobKey, JobId
from stoker.core.options import ByteSize
from stoker.storage.files import FileStorage
from stoker.storage.memory import MemoryStorage

Uploads = Any


async def put(server: BlobServer, job: JobId, upload: Any, name: str = "lib.py") -> BlobKey:
    return await server.put(job, upload.chunks(), sha256=upload.sha256, name=name)


async def test_an_artifact_is_stored_unchanged(
    server: BlobServer, job: JobId, upload: Uploads, storage: MemoryStorage
) -> None:
    """This includes an empty one (BLOB-01)."""
    for content in (b"", b"x", b"hello world" * 100):
        key = await put(server, job, upload(content))
        assert storage.files[path_of(job, key)] == content


async def test_equal_content_of_one_job_is_stored_once(
    server: BlobServer, job: JobId, other_job: JobId, upload: Uploads, storage: MemoryStorage
) -> None:
    # BLOB-01. Flink stores it twice; docs/decisions/blob-keys.md says why Stoker does not.
    first = await put(server, job, upload(b"same"))
    assert await put(server, job, upload(b"same")) == first
    await put(server, other_job, upload(b"same"))
    assert sorted(storage.files) == [f"blobs/{job}/{first}", f"blobs/{other_job}/{first}"]


async def test_an_upload_that_the_storage_refused_is_not_acknowledged(
    server: BlobServer, job: JobId, upload: Uploads, storage: MemoryStorage, incoming: Path
) -> None:
    """The received bytes are deleted (BLOB-02)."""
    storage.fail_next("upload", errno.ENOSPC)
    with pytest.raises(StorageUnavailable, match="disk is full"):
        await put(server, job, upload(b"content"))
    assert storage.files == {}
    assert list(incoming.iterdir()) == []


async def test_another_master_knows_an_artifact_uploaded_to_this_one(
    server: BlobServer, job: JobId, upload: Uploads, storage: MemoryStorage, tmp_path: Path
) -> None:
    """The artifact is in the storage that they share (BLOB-03)."""
    key = await put(server, job, upload(b"content"))
    elsewhere = tmp_path / "elsewhere"
    async with BlobServer(storage, elsewhere, BlobOptions(), off_loop=inline) as second:
        assert await second.missing(job, [key]) == ()


async def test_the_artifacts_of_one_job_are_not_visible_to_another(
    server: BlobServer, job: JobId, other_job: JobId, upload: Uploads
) -> None:
    """For the other job they are missing, like unknown ones (BLOB-04)."""
    key = await put(server, job, upload(b"content"))
    assert await server.missing(job, [key, BlobKey("0" * 64)]) == ("0" * 64,)
    assert await server.missing(other_job, [key]) == (key,)


@pytest.mark.parametrize("bad", ["../../etc/passwd", "", "A" * 64, "0" * 63])
async def test_a_key_that_is_no_digest_is_refused(
    server: BlobServer, job: JobId, upload: Uploads, bad: str
) -> None:
    with pytest.raises(InvalidInput, match="not a SHA-256 digest"):
        await server.missing(job, [BlobKey(bad)])
    with pytest.raises(InvalidInput, match="not a SHA-256 digest"):
        await server.put(job, upload(b"x").chunks(), sha256=bad)
    with pytest.raises(InvalidInput, match="not a job id"):
        await server.delete_job(JobId(bad))


async def test_a_damaged_upload_is_refused_with_its_name(
    server: BlobServer, job: JobId, upload: Uploads, storage: MemoryStorage
) -> None:
    """Nothing is stored, and the error says to upload it again (BLOB-05)."""
    with pytest.raises(CorruptContent, match=r"lib.py .*arrived damaged: 3 bytes.*upload it again"):
        await server.put(job, upload(b"bad").chunks(), sha256=upload(b"good").sha256, name="lib.py")
    assert storage.files == {}


async def test_a_new_upload_replaces_a_damaged_stored_copy(
    server: BlobServer, job: JobId, upload: Uploads, storage: MemoryStorage
) -> None:
    """It is not taken for a repetition of the first upload (BLOB-05)."""
    key = await put(server, job, upload(b"content"))
    storage.files[f"blobs/{job}/{key}"] = b"c0ntent"
    await put(server, job, upload(b"content"))
    assert storage.files[path_of(job, key)] == b"content"


async def test_an_upload_over_the_limit_is_refused_before_it_is_complete(
    storage: MemoryStorage, incoming: Path, job: JobId, upload: Uploads
) -> None:
    options = BlobOptions(upload_size_limit=ByteSize(20))
    large = upload(b"x" * 1000)
    seen = 0

    async def counted() -> Any:
        nonlocal seen
        async for chunk in large.chunks():
            seen += len(chunk)
            yield chunk

    async with BlobServer(storage, incoming, options, off_loop=inline) as server:
        with pytest.raises(TooLarge, match=r"20 bytes that blob\.upload\.size-limit allows"):
            await server.put(job, counted(), sha256=large.sha256)
        assert seen == 21
        assert list(incoming.iterdir()) == []
        fits = upload(b"x" * 20)
        await server.put(job, fits.chunks(), sha256=fits.sha256)


async def test_an_interrupted_upload_leaves_no_file(
    server: BlobServer, job: JobId, upload: Uploads, storage: MemoryStorage, incoming: Path
) -> None:
    """Neither in the storage nor in the folder for uploads (X-BLOB-04)."""
    with pytest.raises(ConnectionResetError):
        await put(server, job, upload(b"x" * 100, breaks_after=50))
    assert storage.files == {}
    assert list(incoming.iterdir()) == []


async def test_a_cancelled_upload_leaves_no_file(
    server: BlobServer, job: JobId, upload: Uploads, storage: MemoryStorage, incoming: Path
) -> None:
    """Neither in the storage nor in the folder for uploads (X-BLOB-04)."""
    started = asyncio.Event()

    async def endless() -> Any:
        yield b"begin"
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(server.put(job, endless(), sha256="0" * 64))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert storage.files == {}
    assert list(incoming.iterdir()) == []


async def test_concurrent_uploads_of_one_artifact_leave_one_whole_file(
    job: JobId, upload: Uploads, tmp_path: Path
) -> None:
    # BLOB-08, on real files and threads
    directory = tmp_path / "storage"
    directory.mkdir()
    content = upload(b"0123456789" * 5000)
    async with BlobServer(FileStorage(directory), tmp_path / "incoming", BlobOptions()) as server:
        puts = [server.put(job, content.chunks(size=9999), sha256=content.sha256) for _ in range(8)]
        keys = set(await asyncio.gather(*puts))
        key = keys.pop()
        assert not keys
        [stored] = [path for path in directory.rglob("*") if path.is_file()]
        assert stored == directory / "blobs" / job / key
        assert stored.read_bytes() == content.content


async def test_a_local_file_can_be_stored(
    server: BlobServer, job: JobId, upload: Uploads, storage: MemoryStorage, tmp_path: Path
) -> None:
    source = tmp_path / "lib.py"
    source.write_bytes(b"content")
    key = await server.put_file(job, source, sha256=upload(b"content").sha256)
    assert storage.files[path_of(job, key)] == b"content"
    assert source.exists()


async def test_a_received_file_is_adopted_under_its_hash(
    server: BlobServer, job: JobId, upload: Uploads, storage: MemoryStorage, tmp_path: Path
) -> None:
    source = tmp_path / "received"
    source.write_bytes(b"content")
    sha256 = upload(b"content").sha256
    key = await server.adopt(job, source, sha256=sha256, size=7)
    assert key == sha256
    assert storage.files[path_of(job, key)] == b"content"


async def test_the_end_of_a_job_removes_its_artifacts_and_no_others(
    server: BlobServer, job: JobId, other_job: JobId, upload: Uploads, storage: MemoryStorage
) -> None:
    """The removal can be repeated (BLOB-07, BLOB-12)."""
    await put(server, job, upload(b"1"))
    await put(server, job, upload(b"2"))
    kept = await put(server, other_job, upload(b"3"))
    await server.delete_job(job)
    await server.delete_job(job)
    assert list(storage.files) == [f"blobs/{other_job}/{kept}"]


async def test_a_failed_removal_is_an_error_and_can_be_repeated(
    server: BlobServer, job: JobId, upload: Uploads, storage: MemoryStorage
) -> None:
    """The clean-up of the job relies on the error (X-BLOB-01)."""
    await put(server, job, upload(b"1"))
    storage.fail_next("delete_tree")
    with pytest.raises(StorageUnavailable):
        await server.delete_job(job)
    await server.delete_job(job)
    assert storage.files == {}


async def test_an_unusable_folder_stops_the_start_with_a_clear_error(
    storage: MemoryStorage, tmp_path: Path
) -> None:
    """It names the folder, which must be writable (X-BLOB-06)."""
    (tmp_path / "file").write_bytes(b"")
    server = BlobServer(storage, tmp_path / "file" / "incoming", BlobOptions(), off_loop=inline)
    with pytest.raises(StartupFailed, match=r"file/incoming for uploads cannot be used.*writable"):
        await server.__aenter__()


async def test_leftovers_of_an_earlier_process_are_swept_at_the_start(
    storage: MemoryStorage, incoming: Path
) -> None:
    incoming.mkdir()
    (incoming / "incoming-old").write_bytes(b"half an upload")
    async with BlobServer(storage, incoming, BlobOptions(), off_loop=inline):
        assert list(incoming.iterdir()) == []


@pytest.fixture
def limited(storage: MemoryStorage, incoming: Path) -> BlobServer:
    options = BlobOptions(storage_size_limit=ByteSize(20), storage_reserve=ByteSize(100))
    return BlobServer(storage, incoming, options, off_loop=inline)


async def test_artifacts_beyond_the_limit_of_all_jobs_are_refused(
    limited: BlobServer, job: JobId, other_job: JobId, upload: Uploads, storage: MemoryStorage
) -> None:
    async with limited as server:
        key = await put(server, job, upload(b"x" * 15))
        with pytest.raises(StorageFull, match=r"15 of 20 bytes .*blob\.storage\.size-limit.*6"):
            await put(server, other_job, upload(b"y" * 6))
        await put(server, other_job, upload(b"y" * 5))
        # A client repeats a submission whose answer it has not got.
        assert await put(server, job, upload(b"x" * 15)) == key
        await server.delete_job(job)
        await put(server, other_job, upload(b"z" * 15))


async def test_of_artifacts_that_arrive_together_only_those_that_fit_are_stored(
    limited: BlobServer, job: JobId, upload: Uploads, storage: MemoryStorage
) -> None:
    async with limited as server:
        uploads = [upload(bytes([number]) * 8) for number in range(5)]
        done = await asyncio.gather(
            *(put(server, job, each) for each in uploads), return_exceptions=True
        )
    assert sum(isinstance(each, StorageFull) for each in done) >= 3
    assert sum(len(content) for content in storage.files.values()) <= 20


async def test_the_reserve_of_the_disk_is_left_to_the_records(
    limited: BlobServer, job: JobId, upload: Uploads, storage: MemoryStorage, tmp_path: Path
) -> None:
    storage.free = 110
    async with limited as server:
        with pytest.raises(StorageFull, match=r"110 bytes free.*100.*blob\.storage\.min-free"):
            await put(server, job, upload(b"x" * 11))
        source = tmp_path / "artifact"
        source.write_bytes(b"x" * 11)
        with pytest.raises(StorageFull):
            await server.adopt(job, source, sha256=upload(b"x" * 11).sha256, size=11)
        assert storage.files == {}
        await put(server, job, upload(b"x" * 10))
        storage.free = 99
        with pytest.raises(StorageFull):
            await server.check_room()

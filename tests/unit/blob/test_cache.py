"""The artifact cache of a task executor, on virtual time."""

import asyncio
import errno
import hashlib
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from stoker.blob.cache import BlobCache
from stoker.blob.keys import path_of
from stoker.blob.options import BlobOptions
from stoker.blob.transfer import inline
from stoker.core.errors import (
    BlobNotFound,
    CorruptContent,
    StartupFailed,
    StorageUnavailable,
    Unavailable,
)
from stoker.core.ids import BlobKey, JobId
from stoker.core.options import ByteSize
from stoker.storage.memory import MemoryStorage
from stoker.testing.virtual_time import run_virtual

JOB = JobId("a" * 32)
OTHER = JobId("b" * 32)
HOUR = timedelta(hours=1).total_seconds()

Body = Callable[[BlobCache], Coroutine[Any, Any, None]]


class SlowStorage(MemoryStorage):
    """Counts the downloads, each of which takes a second."""

    def __init__(self) -> None:
        super().__init__()
        self.downloads = 0

    async def download(self, path: str, target: Path) -> None:
        self.downloads += 1
        await asyncio.sleep(1)
        await super().download(path, target)


class CacheHarness:
    """A cache folder, and the storage from which the cache fetches artifacts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.storage = SlowStorage()

    def stored(self, content: bytes, job: JobId = JOB) -> BlobKey:
        key = BlobKey(hashlib.sha256(content).hexdigest())
        self.storage.files[path_of(job, key)] = content
        return key

    def files(self) -> set[Path]:
        return {path for path in self.folder.rglob("*") if path.is_file()}

    def run(self, body: Body, **options: Any) -> BlobCache:
        cache = BlobCache(
            self.folder, BlobOptions(**options), storage=self.storage, off_loop=inline
        )

        async def main() -> None:
            async with cache:
                await body(cache)
            assert self.files() == set()

        run_virtual(main())
        return cache


@pytest.fixture
def harness(tmp_path: Path) -> CacheHarness:
    return CacheHarness(tmp_path / "cache")


def test_an_artifact_is_fetched_once_from_the_storage(harness: CacheHarness) -> None:
    key = harness.stored(b"content")

    async def body(cache: BlobCache) -> None:
        path = await cache.get(JOB, key)
        assert path.read_bytes() == b"content"
        harness.storage.go_away()
        assert await cache.get(JOB, key) == path

    harness.run(body)


def test_a_job_gets_no_artifact_of_another_job(harness: CacheHarness) -> None:
    """Not even if the cache has that content from the other job (BLOB-04)."""
    key = harness.stored(b"content")

    async def body(cache: BlobCache) -> None:
        await cache.get(JOB, key)
        with pytest.raises(BlobNotFound, match=r"of job b+"):
            await cache.get(OTHER, key)

    harness.run(body)


@pytest.mark.parametrize(
    ("break_storage", "raised"),
    [
        (lambda storage, path: storage.files.pop(path), BlobNotFound),
        (lambda storage, _: storage.go_away(), StorageUnavailable),
        (lambda storage, path: storage.files.update({path: b"c0ntent"}), CorruptContent),
    ],
    ids=["missing", "storage-away", "corrupt"],
)
def test_after_the_last_retry_the_error_names_the_artifact(
    harness: CacheHarness,
    break_storage: Callable[[MemoryStorage, str], object],
    raised: type[Exception],
) -> None:
    """This holds for absent, unreachable and damaged content (BLOB-05, BLOB-09)."""
    key = harness.stored(b"content")
    break_storage(harness.storage, path_of(JOB, key))

    async def body(cache: BlobCache) -> None:
        with pytest.raises(raised, match=r"artifact lib.whl of job a+ .*in 6 tries"):
            await cache.get(JOB, key, name="lib.whl")

    harness.run(body)
    assert harness.storage.downloads == 6


def test_a_passing_failure_is_retried(harness: CacheHarness) -> None:
    """The caller gets the file and learns nothing of the failures (BLOB-09)."""
    key = harness.stored(b"content")
    for _ in range(5):
        harness.storage.fail_next("download")

    async def body(cache: BlobCache) -> None:
        assert (await cache.get(JOB, key)).read_bytes() == b"content"

    harness.run(body)


def test_the_error_says_that_the_disk_is_full(harness: CacheHarness) -> None:
    key = harness.stored(b"content")
    harness.storage.go_away(errno.ENOSPC)

    async def body(cache: BlobCache) -> None:
        with pytest.raises(StorageUnavailable, match="disk is full"):
            await cache.get(JOB, key)

    harness.run(body)


def test_concurrent_requests_share_one_transfer(harness: CacheHarness) -> None:
    """The transfer survives the cancellation of the request that began it (BLOB-08)."""
    key = harness.stored(b"content")

    async def body(cache: BlobCache) -> None:
        first = asyncio.create_task(cache.get(JOB, key))
        others = [asyncio.create_task(cache.get(JOB, key)) for _ in range(10)]
        await asyncio.sleep(0.5)
        first.cancel()
        paths = await asyncio.gather(*others)
        assert {path.read_bytes() for path in paths} == {b"content"}
        assert harness.files() == {paths[0]}

    harness.run(body)
    assert harness.storage.downloads == 1


def test_concurrent_requests_share_one_failure(harness: CacheHarness) -> None:
    async def body(cache: BlobCache) -> None:
        asked = [cache.get(JOB, BlobKey("0" * 64)) for _ in range(10)]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {BlobNotFound}

    harness.run(body)
    assert harness.storage.downloads == 6


def test_a_damaged_local_copy_is_fetched_again(harness: CacheHarness) -> None:
    """A copy that somebody deleted is fetched again as well (BLOB-05)."""
    key = harness.stored(b"content")

    async def body(cache: BlobCache) -> None:
        path = await cache.get(JOB, key)
        path.write_bytes(b"damaged")
        assert (await cache.get(JOB, key)).read_bytes() == b"content"
        path.unlink()
        assert (await cache.get(JOB, key)).read_bytes() == b"content"
        assert cache.size == 7

    harness.run(body)


def test_files_are_deleted_only_after_the_interval_since_the_last_release(
    harness: CacheHarness,
) -> None:
    """Each registration of the job needs a release of its own (BLOB-06, BLOB-10, BLOB-12)."""
    key = harness.stored(b"content")

    async def body(cache: BlobCache) -> None:
        cache.register(JOB)
        cache.register(JOB)
        path = await cache.get(JOB, key)
        cache.release(JOB)
        await asyncio.sleep(10 * HOUR)
        assert path.exists()
        cache.release(JOB)
        await asyncio.sleep(HOUR - 1)
        assert path.exists()
        await asyncio.sleep(2)
        assert not path.parent.exists()
        assert cache.size == 0

    harness.run(body)


def test_a_job_that_returns_within_the_interval_finds_its_files(harness: CacheHarness) -> None:
    """They stay as long as the job is registered again (BLOB-10)."""
    key = harness.stored(b"content")

    async def body(cache: BlobCache) -> None:
        cache.register(JOB)
        path = await cache.get(JOB, key)
        cache.release(JOB)
        await asyncio.sleep(HOUR / 2)
        cache.register(JOB)
        await asyncio.sleep(10 * HOUR)
        assert path.exists()

    harness.run(body)


def test_a_transfer_that_ends_after_the_release_is_cleaned_up_too(harness: CacheHarness) -> None:
    """Its file is deleted after the interval, as if it had been there before (BLOB-12)."""
    key = harness.stored(b"content")

    async def body(cache: BlobCache) -> None:
        cache.register(JOB)
        transfer = asyncio.create_task(cache.get(JOB, key))
        await asyncio.sleep(0.5)
        cache.release(JOB)
        path = await transfer
        await asyncio.sleep(HOUR + 1)
        assert not path.exists()

    harness.run(body)


def test_a_full_cache_evicts_the_least_recently_used_artifact(harness: CacheHarness) -> None:
    """No job that is registered uses these files (X-BLOB-03)."""
    first, second = harness.stored(b"1" * 40), harness.stored(b"2" * 40)
    third = harness.stored(b"3" * 40, OTHER)

    async def body(cache: BlobCache) -> None:
        used, unused = await cache.get(JOB, first), await cache.get(JOB, second)
        await cache.get(JOB, first)
        last = await cache.get(OTHER, third)
        assert harness.files() == {used, last}
        assert not unused.exists()
        assert cache.size == 80

    harness.run(body, cache_size_limit=ByteSize(100))


def test_a_full_cache_never_evicts_an_artifact_of_a_running_job(harness: CacheHarness) -> None:
    """The cache exceeds its limit instead (X-BLOB-03)."""
    first, second = harness.stored(b"1" * 80), harness.stored(b"2" * 80, OTHER)

    async def body(cache: BlobCache) -> None:
        cache.register(JOB)
        kept = await cache.get(JOB, first)
        await cache.get(OTHER, second)
        assert kept.exists()
        assert cache.size == 160

    harness.run(body, cache_size_limit=ByteSize(100))


def test_waiting_requests_fail_when_the_cache_closes(harness: CacheHarness) -> None:
    async def main() -> None:
        cache = BlobCache(harness.folder, BlobOptions(), storage=harness.storage, off_loop=inline)
        async with cache:
            waiting = asyncio.create_task(cache.get(JOB, BlobKey("0" * 64)))
            await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="closing"):
            await waiting
        cache.release(JOB)
        assert harness.files() == set()

    run_virtual(main())


def test_a_folder_that_somebody_removed_does_not_keep_the_cache_from_closing(
    harness: CacheHarness,
) -> None:
    async def body(_cache: BlobCache) -> None:
        harness.folder.rmdir()

    harness.run(body)


def test_an_unusable_folder_stops_the_start_with_a_clear_error(tmp_path: Path) -> None:
    """Otherwise a task would be the first to notice (X-BLOB-06)."""
    (tmp_path / "file").write_bytes(b"")
    harness = CacheHarness(tmp_path / "file" / "cache")

    async def body(_cache: BlobCache) -> None:
        raise AssertionError("must not start")

    with pytest.raises(StartupFailed, match="for artifacts cannot be used"):
        harness.run(body)

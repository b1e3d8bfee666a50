"""The directory and the logs of each attempt."""

import asyncio
import os
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.blob.transfer import inline
from stoker.core.errors import NotFound, StorageUnavailable
from stoker.core.ids import AttemptId
from stoker.gateways.attempt_logs import LARGEST_PIECE, LogStream
from stoker.ha.keys import LOG_CHUNK_BYTES, log_chunk
from stoker.storage.memory import MemoryStorage
from stoker.storage.room import check_free_space
from stoker.taskexecutor.attempt_files import (
    LEFT_BEHIND,
    AttemptFiles,
    AttemptLogs,
    KeptLogs,
    archived_logs,
    to_remove,
)
from stoker.taskexecutor.options import TaskExecutorOptions
from stoker.testing.virtual_time import virtual_wall_clock
from unit.fake_parts import JOB
from unit.taskexecutor.harness import ATTEMPT, Harness, run_scenario


def test_only_the_logs_of_an_ended_attempt_are_kept(tmp_path: Path) -> None:
    files = AttemptFiles(tmp_path / "work", tmp_path / "log", inline)
    directory = files.make_directory(ATTEMPT)
    (directory / "stdout.log").write_text("said")
    (directory / "stderr.log").touch()
    (directory / "tmp").mkdir()
    (directory / "tmp" / "scratch").touch()
    (directory / "tmp").chmod(0o500)
    asyncio.run(files.archive(JOB, ATTEMPT))
    assert not directory.exists()
    kept = tmp_path / "log" / "attempts" / JOB / ATTEMPT
    assert [path.name for path in kept.iterdir()] == ["stdout.log"]


def test_an_attempt_that_removed_its_directory_can_be_archived(tmp_path: Path) -> None:
    files = AttemptFiles(tmp_path / "work", tmp_path / "log", inline)
    files.make_directory(ATTEMPT).rmdir()
    asyncio.run(files.archive(JOB, ATTEMPT))


def test_attempts_of_a_previous_instance_are_archived(tmp_path: Path) -> None:
    files = AttemptFiles(tmp_path / "work", tmp_path / "log", inline)
    (files.make_directory(ATTEMPT) / "stderr.log").write_text("cut off")
    asyncio.run(AttemptFiles(tmp_path / "work", tmp_path / "log", inline).archive_leftovers())
    assert list((tmp_path / "work" / "attempts").iterdir()) == []
    kept = tmp_path / "log" / "attempts" / LEFT_BEHIND / ATTEMPT / "stderr.log"
    assert kept.read_text() == "cut off"


def test_logs_that_were_not_written_for_long_are_removed(tmp_path: Path) -> None:
    files = AttemptFiles(tmp_path / "work", tmp_path / "log", inline)
    kept = tmp_path / "log" / "attempts"
    old = _archive(files, tmp_path / "log", "a", at=100.0)
    young = _archive(files, tmp_path / "log", "b", at=300.0)
    _set_time(kept / JOB, 100.0)
    asyncio.run(files.remove_old_logs(since=200.0))
    assert not (kept / JOB / old).exists()
    assert (kept / JOB / young / "stdout.log").read_text() == "said"
    asyncio.run(files.remove_old_logs(since=400.0))
    assert list(kept.iterdir()) == [kept / JOB], "another attempt may be about to use it"
    _set_time(kept / JOB, 300.0)
    asyncio.run(files.remove_old_logs(since=400.0))
    assert list(kept.iterdir()) == []


def test_removing_old_logs_without_any_attempt_does_nothing(tmp_path: Path) -> None:
    asyncio.run(AttemptFiles(tmp_path / "work", tmp_path / "log", inline).remove_old_logs(since=1))


def test_logs_that_cannot_be_removed_are_left_in_place(tmp_path: Path) -> None:
    async def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    files = AttemptFiles(tmp_path / "work", tmp_path / "log", refused)  # type: ignore[arg-type]
    asyncio.run(files.remove_old_logs(since=1))


def _archive(files: AttemptFiles, log_dir: Path, letter: str, at: float) -> AttemptId:
    attempt = AttemptId(letter * 32)
    log = files.make_directory(attempt) / "stdout.log"
    log.write_text("said")
    asyncio.run(files.archive(JOB, attempt))
    kept = archived_logs(log_dir, JOB, attempt)
    for path in (kept / log.name, kept):
        _set_time(path, at)
    return attempt


def _set_time(path: Path, at: float) -> None:
    os.utime(path, (at, at))


class FullStorage(MemoryStorage):
    async def write(self, path: str, content: bytes) -> None:
        raise StorageUnavailable(f"no room for {path}")


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
def logs(tmp_path: Path, storage: MemoryStorage) -> AttemptLogs:
    return AttemptLogs(tmp_path / "work", tmp_path / "log", storage, inline)


def running(tmp_path: Path, **streams: bytes) -> Path:
    return _written(tmp_path / "work" / "attempts" / ATTEMPT, streams)


def ended(tmp_path: Path, **streams: bytes) -> Path:
    return _written(tmp_path / "log" / "attempts" / JOB / ATTEMPT, streams)


def _written(directory: Path, streams: dict[str, bytes]) -> Path:
    directory.mkdir(parents=True)
    for name, content in streams.items():
        (directory / f"{name}.log").write_bytes(content)
    return directory


async def test_the_log_of_a_running_attempt_is_read_from_an_offset_and_is_not_complete(
    tmp_path: Path, logs: AttemptLogs
) -> None:
    running(tmp_path, stdout=b"one\ntwo\n")
    piece = await logs.read(JOB, ATTEMPT, LogStream.STDOUT, 4)
    assert (piece.data, piece.complete) == (b"two\n", False)
    piece = await logs.read(JOB, ATTEMPT, LogStream.STDERR, 0)
    assert (piece.data, piece.complete) == (b"", False)


async def test_the_log_of_an_ended_attempt_is_read_to_its_end(
    tmp_path: Path, logs: AttemptLogs
) -> None:
    ended(tmp_path, stdout=b"x" * (LARGEST_PIECE + 3))
    first = await logs.read(JOB, ATTEMPT, LogStream.STDOUT, 0)
    assert (len(first.data), first.complete) == (LARGEST_PIECE, False)
    rest = await logs.read(JOB, ATTEMPT, LogStream.STDOUT, LARGEST_PIECE)
    assert (rest.data, rest.complete) == (b"xxx", True)
    beyond = await logs.read(JOB, ATTEMPT, LogStream.STDOUT, 10 * LARGEST_PIECE)
    assert (beyond.data, beyond.complete) == (b"", True)


async def test_the_log_of_an_attempt_that_never_ran_here_is_not_found(logs: AttemptLogs) -> None:
    with pytest.raises(NotFound):
        await logs.read(JOB, ATTEMPT, LogStream.STDOUT, 0)


async def test_logs_are_copied_to_the_storage_in_pieces(
    tmp_path: Path, logs: AttemptLogs, storage: MemoryStorage
) -> None:
    ended(tmp_path, stdout=b"a" * LOG_CHUNK_BYTES + b"end", stderr=b"")
    await logs.copy_to_storage(JOB, ATTEMPT)
    assert await storage.list("logs") == [
        log_chunk(JOB, ATTEMPT, "stdout", 0),
        log_chunk(JOB, ATTEMPT, "stdout", 1),
    ]
    assert await storage.read(log_chunk(JOB, ATTEMPT, "stdout", 1)) == b"end"


async def test_a_failed_copy_of_a_log_fails_no_task(tmp_path: Path) -> None:
    ended(tmp_path, stdout=b"hello")
    logs = AttemptLogs(tmp_path / "work", tmp_path / "log", FullStorage(), inline)
    await logs.copy_to_storage(JOB, ATTEMPT)
    assert (await logs.read(JOB, ATTEMPT, LogStream.STDOUT, 0)).data == b"hello"


async def test_a_log_that_its_task_made_unreadable_fails_no_task(
    tmp_path: Path, logs: AttemptLogs, storage: MemoryStorage
) -> None:
    """User code may do anything to the files of its attempt."""
    directory = ended(tmp_path, stderr=b"hello")
    (directory / "stdout.log").mkdir()
    await logs.copy_to_storage(JOB, ATTEMPT)
    assert await storage.read(log_chunk(JOB, ATTEMPT, "stderr", 0)) == b"hello"


HOUR = timedelta(hours=1)


def test_a_task_executor_removes_logs_after_the_retention_time(tmp_path: Path) -> None:
    kept = tmp_path / "log" / "attempts" / JOB / ATTEMPT
    kept.mkdir(parents=True)
    written = kept / "stdout.log"
    written.write_text("said")

    async def scenario(harness: Harness) -> None:
        now = virtual_wall_clock()() / 1000
        for path in (written, kept):
            os.utime(path, (now, now))
        await asyncio.sleep(HOUR.total_seconds() - 60)
        assert written.read_text() == "said"
        await asyncio.sleep(HOUR.total_seconds())
        assert not kept.exists()

    run_scenario(tmp_path, scenario, options=TaskExecutorOptions(logs_retention=HOUR))


@pytest.mark.parametrize("is_archived", [False, True])
@pytest.mark.parametrize("target", ["pipe", "/dev/zero", "/etc/hostname"])
def test_a_log_that_the_task_replaced_blocks_nobody_and_shows_no_other_file(
    tmp_path: Path, target: str, is_archived: bool
) -> None:
    files = AttemptFiles(tmp_path / "work", tmp_path / "log", inline)
    storage = MemoryStorage()
    log = files.make_directory(ATTEMPT) / "stdout.log"
    os.mkfifo(log) if target == "pipe" else log.symlink_to(target)
    logs = AttemptLogs(tmp_path / "work", tmp_path / "log", storage, inline)
    if is_archived:
        assert not asyncio.run(files.archive(JOB, ATTEMPT))
        asyncio.run(logs.copy_to_storage(JOB, ATTEMPT))
        with pytest.raises(NotFound):
            asyncio.run(logs.read(JOB, ATTEMPT, LogStream.STDOUT, 0))
    else:
        piece = asyncio.run(logs.read(JOB, ATTEMPT, LogStream.STDOUT, 0))
        assert b"replaced its log" in piece.data
    assert not asyncio.run(storage.list(""))


def test_a_link_of_a_task_does_not_change_the_mode_of_another_file(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.touch(mode=0o400)
    files = AttemptFiles(tmp_path / "work", tmp_path / "log", inline)
    directory = files.make_directory(ATTEMPT)
    (directory / "read-only").mkdir()
    (directory / "read-only" / "link").symlink_to(other)
    (directory / "read-only").chmod(0o500)
    asyncio.run(files.archive(JOB, ATTEMPT))
    assert not directory.exists()
    assert other.stat().st_mode & 0o777 == 0o400


kept_logs = st.lists(
    st.builds(
        KeptLogs, st.integers().map(lambda n: Path(str(n))), st.integers(0, 50), st.floats(0, 9)
    ),
    max_size=8,
    unique_by=(lambda logs: logs.directory, lambda logs: logs.written),
)


@given(kept_logs, st.floats(0, 9), st.integers(0, 120))
def test_the_newest_logs_within_the_limit_stay(
    kept: list[KeptLogs], since: float, limit: int
) -> None:
    removed = set(to_remove(kept, since, limit))
    left = [logs for logs in kept if logs.directory not in removed]
    assert all(logs.written >= since for logs in left)
    if limit:
        assert sum(logs.size for logs in left) <= limit
        oldest_left = min((logs.written for logs in left), default=10.0)
        assert all(
            logs.written < since or logs.written <= oldest_left
            for logs in kept
            if logs.directory in removed
        )
    else:
        assert all(logs.written < since for logs in kept if logs.directory in removed)


def test_logs_beyond_the_limit_are_removed_by_their_age(tmp_path: Path) -> None:
    files = AttemptFiles(tmp_path / "work", tmp_path / "log", inline)
    place = tmp_path / "log" / "attempts" / JOB
    old = _archive(files, tmp_path / "log", "a", at=100.0)
    young = _archive(files, tmp_path / "log", "b", at=300.0)
    for attempt, at in ((old, 100.0), (young, 300.0)):
        _set_time(place / attempt, at)
    asyncio.run(files.remove_old_logs(since=0.0, limit=len("said") * 2))
    assert (place / old).exists()
    asyncio.run(files.remove_old_logs(since=0.0, limit=len("said") * 2 - 1))
    assert not (place / old).exists()
    assert (place / young).exists()


async def test_logs_leave_the_reserve_of_the_storage_to_the_records(
    tmp_path: Path, storage: MemoryStorage
) -> None:
    ended(tmp_path, stdout=b"hello")
    storage.free = 104
    check = partial(check_free_space, storage, reserve=100, option="blob.storage.min-free")
    logs = AttemptLogs(tmp_path / "work", tmp_path / "log", storage, inline, check)
    await logs.copy_to_storage(JOB, ATTEMPT)
    assert await storage.list("logs") == []
    storage.free = 105
    await logs.copy_to_storage(JOB, ATTEMPT)
    assert len(await storage.list("logs")) == 1

"""What attempts write can be read while they run, afterwards, and after their task executor."""

from pathlib import Path

import pytest

from stoker.blob.content import inline
from stoker.core.errors import NotFound, StorageUnavailable
from stoker.core.ids import AttemptId, JobId
from stoker.gateways.attempt_logs import LARGEST_PIECE, LogStream
from stoker.ha.keys import LOG_CHUNK_BYTES, log_chunk
from stoker.storage.memory import MemoryStorage
from stoker.taskexecutor.attempt_logs import AttemptLogs

JOB = JobId("1" * 32)
ATTEMPT = AttemptId("2" * 32)


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


async def test_a_running_attempt_is_read_from_an_offset_and_may_say_more(
    tmp_path: Path, logs: AttemptLogs
) -> None:
    running(tmp_path, stdout=b"one\ntwo\n")
    piece = await logs.read(JOB, ATTEMPT, LogStream.STDOUT, 4)
    assert (piece.data, piece.complete) == (b"two\n", False)
    piece = await logs.read(JOB, ATTEMPT, LogStream.STDERR, 0)
    assert (piece.data, piece.complete) == (b"", False)


async def test_an_ended_attempt_is_read_to_its_end(tmp_path: Path, logs: AttemptLogs) -> None:
    ended(tmp_path, stdout=b"x" * (LARGEST_PIECE + 3))
    first = await logs.read(JOB, ATTEMPT, LogStream.STDOUT, 0)
    assert (len(first.data), first.complete) == (LARGEST_PIECE, False)
    rest = await logs.read(JOB, ATTEMPT, LogStream.STDOUT, LARGEST_PIECE)
    assert (rest.data, rest.complete) == (b"xxx", True)
    beyond = await logs.read(JOB, ATTEMPT, LogStream.STDOUT, 10 * LARGEST_PIECE)
    assert (beyond.data, beyond.complete) == (b"", True)


async def test_an_attempt_that_was_never_here_is_not_found(logs: AttemptLogs) -> None:
    with pytest.raises(NotFound):
        await logs.read(JOB, ATTEMPT, LogStream.STDOUT, 0)


async def test_logs_are_copied_in_pieces_to_where_they_outlive_the_task_executor(
    tmp_path: Path, logs: AttemptLogs, storage: MemoryStorage
) -> None:
    ended(tmp_path, stdout=b"a" * LOG_CHUNK_BYTES + b"end", stderr=b"")
    await logs.copy_to_storage(JOB, ATTEMPT)
    assert await storage.list("logs") == [
        log_chunk(JOB, ATTEMPT, "stdout", 0),
        log_chunk(JOB, ATTEMPT, "stdout", 1),
    ]
    assert await storage.read(log_chunk(JOB, ATTEMPT, "stdout", 1)) == b"end"


async def test_a_storage_that_takes_no_log_fails_nothing(tmp_path: Path) -> None:
    ended(tmp_path, stdout=b"hello")
    logs = AttemptLogs(tmp_path / "work", tmp_path / "log", FullStorage(), inline)
    await logs.copy_to_storage(JOB, ATTEMPT)
    assert (await logs.read(JOB, ATTEMPT, LogStream.STDOUT, 0)).data == b"hello"

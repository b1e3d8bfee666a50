"""The directory of each attempt."""

import asyncio
import os
from pathlib import Path

from stoker.blob.content import inline
from stoker.core.ids import AttemptId, JobId
from stoker.taskexecutor.attempt_files import LEFT_BEHIND, AttemptFiles

JOB = JobId("1" * 32)
ATTEMPT = AttemptId("a" * 32)


def test_of_an_attempt_only_its_logs_stay(tmp_path: Path) -> None:
    files = AttemptFiles(tmp_path / "work", tmp_path / "log", inline)
    directory = files.make_directory(ATTEMPT)
    (directory / "stdout.log").write_text("said")
    (directory / "stderr.log").touch()
    (directory / "tmp").mkdir()
    (directory / "tmp" / "scratch").touch()
    (directory / "tmp").chmod(0o500)
    asyncio.run(files.put_away(JOB, ATTEMPT))
    assert not directory.exists()
    kept = tmp_path / "log" / "attempts" / JOB / ATTEMPT
    assert [path.name for path in kept.iterdir()] == ["stdout.log"]


def test_an_attempt_that_removed_its_directory_is_put_away_too(tmp_path: Path) -> None:
    files = AttemptFiles(tmp_path / "work", tmp_path / "log", inline)
    files.make_directory(ATTEMPT).rmdir()
    asyncio.run(files.put_away(JOB, ATTEMPT))


def test_what_a_former_life_left_is_put_away(tmp_path: Path) -> None:
    files = AttemptFiles(tmp_path / "work", tmp_path / "log", inline)
    (files.make_directory(ATTEMPT) / "stderr.log").write_text("cut off")
    asyncio.run(AttemptFiles(tmp_path / "work", tmp_path / "log", inline).put_away_leftovers())
    assert list((tmp_path / "work" / "attempts").iterdir()) == []
    kept = tmp_path / "log" / "attempts" / LEFT_BEHIND / ATTEMPT / "stderr.log"
    assert kept.read_text() == "cut off"


def test_logs_go_when_nothing_was_added_to_them_for_long(tmp_path: Path) -> None:
    files = AttemptFiles(tmp_path / "work", tmp_path / "log", inline)
    kept = tmp_path / "log" / "attempts"
    old = _put_away(files, "a", at=100.0)
    young = _put_away(files, "b", at=300.0)
    _set_time(kept / JOB, 100.0)
    asyncio.run(files.remove_old_logs(since=200.0))
    assert not (kept / JOB / old).exists()
    assert (kept / JOB / young / "stdout.log").read_text() == "said"
    asyncio.run(files.remove_old_logs(since=400.0))
    assert list(kept.iterdir()) == [kept / JOB], "another attempt may be about to use it"
    _set_time(kept / JOB, 300.0)
    asyncio.run(files.remove_old_logs(since=400.0))
    assert list(kept.iterdir()) == []


def test_where_no_attempt_has_written_no_log_is_old(tmp_path: Path) -> None:
    asyncio.run(AttemptFiles(tmp_path / "work", tmp_path / "log", inline).remove_old_logs(since=1))


def test_logs_that_cannot_be_removed_are_left_there(tmp_path: Path) -> None:
    async def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    files = AttemptFiles(tmp_path / "work", tmp_path / "log", refused)  # type: ignore[arg-type]
    asyncio.run(files.remove_old_logs(since=1))


def _put_away(files: AttemptFiles, letter: str, at: float) -> AttemptId:
    attempt = AttemptId(letter * 32)
    log = files.make_directory(attempt) / "stdout.log"
    log.write_text("said")
    asyncio.run(files.put_away(JOB, attempt))
    kept = files.logs_of(JOB, attempt)
    for path in (kept / log.name, kept):
        _set_time(path, at)
    return attempt


def _set_time(path: Path, at: float) -> None:
    os.utime(path, (at, at))

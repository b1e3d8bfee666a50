"""The directory of each attempt."""

import asyncio
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

"""Logs of attempts that ended long ago."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path

from stoker.taskexecutor.options import TaskExecutorOptions
from stoker.testing.virtual_time import virtual_wall_clock
from unit.fake_parts import JOB
from unit.taskexecutor.stage import ATTEMPT, Stage, play

HOUR = timedelta(hours=1)


def test_a_task_executor_removes_them_when_they_are_old_enough(tmp_path: Path) -> None:
    kept = tmp_path / "log" / "attempts" / JOB / ATTEMPT
    kept.mkdir(parents=True)
    written = kept / "stdout.log"
    written.write_text("said")

    async def story(stage: Stage) -> None:
        now = virtual_wall_clock()() / 1000
        for path in (written, kept):
            os.utime(path, (now, now))
        await asyncio.sleep(HOUR.total_seconds() - 60)
        assert written.read_text() == "said"
        await asyncio.sleep(HOUR.total_seconds())
        assert not kept.exists()

    play(tmp_path, story, options=TaskExecutorOptions(logs_retention=HOUR))

"""What a job's master is told, and how its process is reached."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.core.ids import SessionId
from stoker.core.states import ExecutionState
from stoker.core.tokens import FencingToken
from stoker.taskexecutor import job_link
from stoker.taskexecutor.job_link import Acquaintance, JobLink
from unit.fake_parts import JOB, FakeMaster
from unit.taskexecutor.stage import Stage, deployment, play


async def _run_one(stage: Stage) -> list[ExecutionState]:
    async with stage.master_running() as master:
        await stage.request_slot()
        await stage.submit(deployment(seconds=1))
        await asyncio.sleep(5)
        assert [outcome.state for outcome in master.outcomes] == [ExecutionState.FINISHED]
        return [report.state for report in master.changes]


def test_a_state_that_passes_at_once_is_not_told(tmp_path: Path):
    async def story(stage: Stage) -> None:
        assert await _run_one(stage) == [ExecutionState.RUNNING]

    play(tmp_path, story)


def test_a_state_that_lasts_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(job_link, "PASSING_SECONDS", 0.01)

    async def story(stage: Stage) -> None:
        assert await _run_one(stage) == [ExecutionState.INITIALIZING, ExecutionState.RUNNING]

    play(tmp_path, story)


def test_progress_is_told_from_the_second_interval_on(tmp_path: Path):
    told: list[float] = []

    class Listening(FakeMaster):
        def attempts_progressed(self, instance: Any, reports: Any) -> None:
            told.append(asyncio.get_running_loop().time())

    async def story(stage: Stage) -> None:
        async with stage.master_running(Listening):
            await stage.request_slot()
            began = asyncio.get_running_loop().time()
            await stage.submit(deployment(seconds=4))
            await asyncio.sleep(8)
            assert told
            assert min(told) >= began + 2, "the fake engine has some when half of it is done"

    play(tmp_path, story)


class _Rpc:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def connect(self, address: str, *_: Any, **__: Any) -> object:
        self.asked.append(f"greet {address}")
        return object()

    def reach(self, address: str, *_: Any, **__: Any) -> object:
        self.asked.append(f"reach {address}")
        return object()


async def test_the_process_of_all_masters_is_greeted_once_an_epoch():
    rpc: Any = _Rpc()
    acquaintance = Acquaintance()
    nothing: Any = None

    async def connect(epoch: int, address: str) -> None:
        link = JobLink(
            job_id=JOB,
            rpc=rpc,
            identity=nothing,
            holdings=nothing,
            retrieval=nothing,
            options=nothing,
            lease=nothing,
            acquaintance=acquaintance,
        )
        token = FencingToken(epoch=epoch, session=SessionId("s"))
        leader: Any = SimpleNamespace(address=address, token=token)
        await link._connect(leader)

    await connect(1, "a")
    await connect(1, "b")
    await connect(2, "a")
    await connect(2, "b")
    assert rpc.asked == ["greet a", "reach b", "greet a", "reach b"]

"""What is reported to the master of a job, and how its process is reached."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from stoker.core.graph import JobType
from stoker.core.ids import AllocationId, SessionId
from stoker.core.states import ExecutionState
from stoker.core.values import FencingToken
from stoker.taskexecutor import job_link
from stoker.taskexecutor.job_link import JobLink, MasterHandshake
from unit.fake_parts import JOB, FakeMaster
from unit.taskexecutor.stage import SLOT, Stage, deployment, play


async def _run_one(stage: Stage) -> list[ExecutionState]:
    async with stage.master_running() as master:
        await stage.request_slot()
        await stage.submit(deployment(seconds=1))
        await asyncio.sleep(5)
        assert [outcome.state for outcome in master.outcomes] == [ExecutionState.FINISHED]
        return [report.state for report in master.changes]


def test_a_short_state_is_not_reported(tmp_path: Path):
    async def story(stage: Stage) -> None:
        assert await _run_one(stage) == [ExecutionState.RUNNING]

    play(tmp_path, story)


def test_a_lasting_state_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(job_link, "REPORT_DELAY_SECONDS", {ExecutionState.INITIALIZING: 0.01})

    async def story(stage: Stage) -> None:
        assert await _run_one(stage) == [ExecutionState.INITIALIZING, ExecutionState.RUNNING]

    play(tmp_path, story)


class Timing(FakeMaster):
    """Records reports with their loop times."""

    def __init__(self, token: FencingToken) -> None:
        super().__init__(token)
        self.reports: list[tuple[str, float]] = []

    def attempt_changed(self, report: Any) -> bool:
        self.reports.append((report.state, asyncio.get_running_loop().time()))
        return super().attempt_changed(report)

    def attempt_ended(self, instance: Any, outcome: Any, before: Any) -> tuple[AllocationId, ...]:
        now = asyncio.get_running_loop().time()
        self.reports += [(report.state, now) for report in (before, outcome) if report is not None]
        return super().attempt_ended(instance, outcome, before)


@pytest.mark.parametrize(
    ("seconds", "streaming", "between"),
    [(0.3, False, 0.0), (2.0, False, 1.0), (2.0, True, 2.0)],
    ids=["short batch", "long batch", "stream"],
)
def test_a_running_batch_task_is_reported_when_it_lasts_or_together_with_its_end(
    tmp_path: Path, seconds: float, streaming: bool, between: float
):
    task = deployment(seconds=seconds)
    if streaming:
        source, sink = task.graph.vertices
        vertices = (msgspec.structs.replace(source, streaming=True), sink)
        graph = msgspec.structs.replace(task.graph, vertices=vertices, job_type=JobType.STREAMING)
        task = msgspec.structs.replace(task, graph=graph)

    async def story(stage: Stage) -> None:
        async with stage.master_running(Timing) as master:
            assert isinstance(master, Timing)
            await stage.request_slot()
            await stage.submit(task)
            await asyncio.sleep(5)
            (running, running_at), (ended, ended_at) = master.reports
            assert (running, ended) == (ExecutionState.RUNNING, ExecutionState.FINISHED)
            assert ended_at - running_at == pytest.approx(between, abs=0.05)

    play(tmp_path, story)


def test_slots_are_returned_with_the_answer_to_an_outcome(tmp_path: Path):
    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            master.gives_back = (SLOT, AllocationId("somebody-elses"))
            await stage.request_slot()
            reports = len(stage.manager.reports)
            await stage.submit(deployment(seconds=1))
            assert await stage.beat()
            await asyncio.sleep(3)
            assert len(stage.manager.reports) == reports + 1, "not only with the next heartbeat"
            assert not await stage.beat()

    play(tmp_path, story)


def test_a_replaced_master_returns_no_slots(tmp_path: Path):
    async def story(stage: Stage) -> None:
        class Superseded(FakeMaster):
            """While it answers, the next one has commands already."""

            async def attempt_ended(
                self, instance: Any, outcome: Any, before: Any
            ) -> tuple[AllocationId, ...]:
                token = stage.leadership.token
                later = FencingToken(epoch=token.epoch + 1, session=token.session)
                await stage.executor.heartbeat_from_job_master(later, JOB, (SLOT,))
                return (SLOT,)

        async with stage.master_running(Superseded):
            await stage.request_slot()
            await stage.submit(deployment(seconds=1))
            await asyncio.sleep(2)
            assert await stage.beat()

    play(tmp_path, story)


def test_progress_is_reported_from_the_second_interval_on(tmp_path: Path):
    reported_at: list[float] = []

    class Listening(FakeMaster):
        def attempts_progressed(self, instance: Any, reports: Any) -> None:
            reported_at.append(asyncio.get_running_loop().time())

    async def story(stage: Stage) -> None:
        async with stage.master_running(Listening):
            await stage.request_slot()
            began = asyncio.get_running_loop().time()
            await stage.submit(deployment(seconds=4))
            await asyncio.sleep(8)
            assert reported_at
            assert min(reported_at) >= began + 2, "the fake engine reports at half time"

    play(tmp_path, story)


class _Rpc:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def connect(self, address: str, *_: Any, **__: Any) -> object:
        self.asked.append(f"connect {address}")
        return object()

    def reach(self, address: str, *_: Any, **__: Any) -> object:
        self.asked.append(f"reach {address}")
        return object()


async def test_the_leading_process_gets_one_handshake_per_epoch():
    rpc: Any = _Rpc()
    handshake = MasterHandshake()
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
            handshake=handshake,
        )
        token = FencingToken(epoch=epoch, session=SessionId("s"))
        leader: Any = SimpleNamespace(address=address, token=token)
        await link._connect(leader)

    await connect(1, "a")
    await connect(1, "b")
    await connect(2, "a")
    await connect(2, "b")
    assert rpc.asked == ["connect a", "reach b", "connect a", "reach b"]

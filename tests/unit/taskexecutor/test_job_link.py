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
from unit.taskexecutor.harness import SLOT, Harness, deployment, run_scenario


async def _run_one(harness: Harness) -> list[ExecutionState]:
    async with harness.master_running() as master:
        await harness.request_slot()
        await harness.submit(deployment(seconds=1))
        await asyncio.sleep(5)
        assert [outcome.state for outcome in master.outcomes] == [ExecutionState.FINISHED]
        return [report.state for report in master.changes]


def test_a_state_that_passes_quickly_is_not_reported(tmp_path: Path):
    async def scenario(harness: Harness) -> None:
        assert await _run_one(harness) == [ExecutionState.RUNNING]

    run_scenario(tmp_path, scenario)


def test_a_state_that_lasts_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(job_link, "REPORT_DELAY_SECONDS", {ExecutionState.INITIALIZING: 0.01})

    async def scenario(harness: Harness) -> None:
        assert await _run_one(harness) == [ExecutionState.INITIALIZING, ExecutionState.RUNNING]

    run_scenario(tmp_path, scenario)


class TimingMaster(FakeMaster):
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

    async def scenario(harness: Harness) -> None:
        async with harness.master_running(TimingMaster) as master:
            assert isinstance(master, TimingMaster)
            await harness.request_slot()
            await harness.submit(task)
            await asyncio.sleep(5)
            (running, running_at), (ended, ended_at) = master.reports
            assert (running, ended) == (ExecutionState.RUNNING, ExecutionState.FINISHED)
            assert ended_at - running_at == pytest.approx(between, abs=0.05)

    run_scenario(tmp_path, scenario)


def test_slots_are_returned_with_the_answer_to_an_outcome(tmp_path: Path):
    async def scenario(harness: Harness) -> None:
        async with harness.master_running() as master:
            master.gives_back = (SLOT, AllocationId("somebody-elses"))
            await harness.request_slot()
            reports = len(harness.manager.reports)
            await harness.submit(deployment(seconds=1))
            assert await harness.slot_is_taken()
            await asyncio.sleep(3)
            assert len(harness.manager.reports) == reports + 1, "not only with the next heartbeat"
            assert not await harness.slot_is_taken()

    run_scenario(tmp_path, scenario)


def test_a_replaced_master_returns_no_slots(tmp_path: Path):
    async def scenario(harness: Harness) -> None:
        class SupersededMaster(FakeMaster):
            """A job master whose successor sends commands while this one answers."""

            async def attempt_ended(
                self, instance: Any, outcome: Any, before: Any
            ) -> tuple[AllocationId, ...]:
                token = harness.leadership.token
                later = FencingToken(epoch=token.epoch + 1, session=token.session)
                await harness.executor.heartbeat_from_job_master(later, JOB, (SLOT,))
                return (SLOT,)

        async with harness.master_running(SupersededMaster):
            await harness.request_slot()
            await harness.submit(deployment(seconds=1))
            await asyncio.sleep(2)
            assert await harness.slot_is_taken()

    run_scenario(tmp_path, scenario)


def test_progress_is_reported_from_the_second_interval_on(tmp_path: Path):
    reported_at: list[float] = []

    class ListeningMaster(FakeMaster):
        def attempts_progressed(self, instance: Any, reports: Any) -> None:
            reported_at.append(asyncio.get_running_loop().time())

    async def scenario(harness: Harness) -> None:
        async with harness.master_running(ListeningMaster):
            await harness.request_slot()
            began = asyncio.get_running_loop().time()
            await harness.submit(deployment(seconds=4))
            await asyncio.sleep(8)
            assert reported_at
            assert min(reported_at) >= began + 2, "the fake engine reports at half time"

    run_scenario(tmp_path, scenario)


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
            renewals=nothing,
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

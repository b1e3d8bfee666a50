"""The drain of a task executor, decision by decision."""

import pytest

from stoker.core.errors import NotFound
from stoker.core.graph import FormatRead, FormatWrite, JobGraph, Sink, Source
from stoker.core.ids import AllocationId, AttemptId, JobId, RegionId
from stoker.core.states import ExecutionState
from stoker.gateways.taskexecutor import TaskDeployment
from stoker.taskexecutor.draining import UNREPORTED_SECONDS, Draining
from stoker.taskexecutor.held_task import HeldTask


def held(*, streaming: bool = False, ended: bool = False) -> HeldTask:
    trigger = "1 second" if streaming else None
    graph = JobGraph(
        job_id=JobId("1" * 32),
        name="a",
        vertices=(
            Source(name="in", read=FormatRead(format="rate"), streaming=streaming),
            Sink(name="out", input="in", write=FormatWrite(format="noop"), trigger=trigger),
        ),
    )
    task = HeldTask(
        TaskDeployment(
            graph=graph,
            region=RegionId("out"),
            attempt=AttemptId("a"),
            number=0,
            allocation=AllocationId("slot"),
        ),
        100.0,
    )
    if ended:
        task.outcome = task.make_outcome(ExecutionState.FINISHED, 1)
    return task


def test_nothing_changes_before_a_drain_starts() -> None:
    draining = Draining()
    draining.check_accepting(AllocationId("slot"))
    assert draining.tasks_to_move([held(streaming=True)], 1e9) == []
    assert not draining.is_over([], 1e9)


def test_a_draining_task_executor_refuses_new_tasks() -> None:
    draining = Draining()
    draining.begin(0, None)
    with pytest.raises(NotFound, match="accepts no new task"):
        draining.check_accepting(AllocationId("slot"))


def test_streams_move_at_once_and_batch_tasks_after_their_time() -> None:
    draining = Draining()
    stream, batch = held(streaming=True), held()
    draining.begin(0, None)
    assert draining.tasks_to_move([stream, batch], 1e9) == [stream]
    draining.begin(0, 60)
    draining.begin(10, 100)
    assert draining.tasks_to_move([batch], 59) == []
    assert draining.tasks_to_move([batch], 60) == [batch]
    batch.cancel_reason = "asked before"
    assert draining.tasks_to_move([batch, held(ended=True)], 60) == []


def test_a_drain_ends_when_nothing_runs_and_outcomes_were_acknowledged_or_waited_long_enough() -> (
    None
):
    draining = Draining()
    draining.begin(0, None)
    assert draining.is_over([], 0)
    assert not draining.is_over([held()], 100)
    assert not draining.is_over([held(ended=True)], 200)
    assert draining.is_over([held(ended=True)], 200 + UNREPORTED_SECONDS)
    assert not draining.is_over([held(), held(ended=True)], 300)

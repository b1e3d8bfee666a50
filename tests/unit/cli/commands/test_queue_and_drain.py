"""`stoker queue` and `stoker drain`, against a master on loopback."""

import json

import pytest

from stoker.core.ids import ResourceId
from stoker.gateways.dispatcher import QueueOverview
from stoker.gateways.resourcemanager import TaskExecutorDetails
from stoker.testing.rest import DispatcherInMemory
from stoker.testing.sample_jobs import EXECUTOR, RUNNING
from unit.cli.conftest import ServedMaster


class DispatcherWithoutDrained(DispatcherInMemory):
    """A dispatcher whose task executor leaves as soon as it is drained."""

    async def task_executors(self) -> list[TaskExecutorDetails]:
        return [] if self.drained else await super().task_executors()


class DispatcherWithTwoQueues(DispatcherInMemory):
    async def queues(self) -> list[QueueOverview]:
        return [
            QueueOverview(name="default", running=3, slots=5, slots_in_use=2, waiting_for_slots=2),
            QueueOverview(
                name="nightly", running=2, max_running=2, slots=4, slots_in_use=4, max_slots=8
            ),
        ]


async def test_queues_are_listed_with_their_limits_and_next_jobs(served: ServedMaster) -> None:
    result = await served("queue", "list")
    assert result.exit_code == 0, result.output
    assert [line.split("  ") for line in _rows_of(result.stdout)] == [
        ["QUEUE", "RUNNING", "SLOTS", "WAITING", "NEXT"],
        ["nightly", "1 of 1", "2", "1", RUNNING[:12]],
    ]


async def test_jobs_without_a_slot_count_as_waiting_and_slots_in_use_are_listed(
    served: ServedMaster,
) -> None:
    served.master.dispatcher = DispatcherWithTwoQueues()
    result = await served("queue", "list")
    assert [line.split("  ") for line in _rows_of(result.stdout)[1:]] == [
        ["default", "1", "2", "2", "-"],
        ["nightly", "2 of 2", "4 of 8", "0", "-"],
    ]


async def test_queues_are_printed_as_json(served: ServedMaster) -> None:
    result = await served("queue", "list", "--json")
    assert json.loads(result.stdout) == [
        {
            "name": "nightly",
            "running": 1,
            "max_running": 1,
            "slots": 2,
            "max_slots": None,
            "waiting": [RUNNING],
            "slots_in_use": 2,
            "waiting_for_slots": 0,
        }
    ]


async def test_drain_returns_without_waiting_by_default(served: ServedMaster) -> None:
    result = await served("drain", EXECUTOR, "--timeout", "600")
    assert result.exit_code == 0, result.output
    assert "gets no new tasks and ends when its last one is done" in result.stderr
    assert served.master.dispatcher.drained == [(ResourceId(EXECUTOR), 600.0)]


async def test_an_executor_that_leaves_in_time_is_reported(served: ServedMaster) -> None:
    served.master.dispatcher = DispatcherWithoutDrained()
    result = await served("drain", EXECUTOR, "--wait", "60")
    assert result.exit_code == 0, result.output
    assert "has left" in result.stderr


async def test_an_executor_that_stays_longer_gives_exit_code_1(served: ServedMaster) -> None:
    result = await served("drain", EXECUTOR, "--wait", "0")
    assert result.exit_code == 1
    assert "still has tasks" in result.stderr
    told = await served("drain", EXECUTOR, "--wait", "0", "--json")
    assert told.exit_code == 1
    assert json.loads(told.stdout) == {"task_executor": EXECUTOR, "gone": False}


async def test_an_unknown_task_executor_is_named(served: ServedMaster) -> None:
    result = await served("drain", "task-executor-9")
    assert result.exit_code != 0
    assert "no task executor with id task-executor-9" in result.stderr
    assert served.master.dispatcher.drained == []


@pytest.mark.parametrize(
    "arguments", [("drain",), ("drain", "x", "--wait", "-1"), ("queue", "lst")]
)
async def test_wrong_arguments_give_exit_code_2(
    served: ServedMaster, arguments: tuple[str, ...]
) -> None:
    assert (await served(*arguments)).exit_code == 2


def _rows_of(text: str) -> list[str]:
    """The lines of a table, with exactly two blanks between columns of any width."""
    found = []
    for line in text.strip().splitlines():
        cells = [cell.strip() for cell in line.split("  ") if cell.strip()]
        found.append("  ".join(cells))
    return found

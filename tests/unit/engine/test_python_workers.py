"""Which Python workers of Spark belong to a task, and when they are killed."""

from collections.abc import Callable

import pytest

from stoker.engine import python_workers
from stoker.engine.limits import MEGABYTE, MachineMemory, memory_of_machine
from stoker.engine.python_workers import (
    WorkerMemoryWatch,
    WorkersOfDriver,
    WorkersOfSession,
    fills_machine,
    workers_out_of_memory,
)

SERVER = 1


class Machine:
    """A server with the daemons of two sessions, each with workers."""

    children = {SERVER: [10, 20, 30], 10: [11, 12], 20: [21]}
    programs = {10: "python3", 20: "python3", 30: "rm"}
    marks = {10: "mine", 20: "theirs"}

    def __init__(self, monkeypatch: pytest.MonkeyPatch, memory: dict[int, int]) -> None:
        self.killed: list[str] = []
        below: Callable[[int], list[int]] = lambda pid: self.children.get(pid, [])  # noqa: E731
        monkeypatch.setattr(python_workers, "children_of", below)
        monkeypatch.setattr(python_workers, "descendants_of", below)
        monkeypatch.setattr(python_workers, "program_of", lambda pid: self.programs.get(pid, ""))
        monkeypatch.setattr(
            python_workers,
            "environment_of",
            lambda pid: f"SPARK_JOB_ARTIFACT_UUID={self.marks.get(pid, '')}\0".encode(),
        )
        monkeypatch.setattr(python_workers, "own_bytes", lambda pid: memory.get(pid, 0) * MEGABYTE)
        monkeypatch.setattr(
            python_workers, "proportional_bytes", lambda pid: memory.get(pid, 0) * MEGABYTE
        )
        monkeypatch.setattr(
            python_workers, "kill_marked", lambda _name, mark: self.killed.append(mark)
        )


def test_only_the_workers_of_the_tasks_own_session_count(monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(monkeypatch, {})
    assert WorkersOfSession(SERVER, lambda: "mine").find() == [10, 11, 12]


def test_the_session_is_asked_for_its_mark_once_and_only_if_there_are_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Machine(monkeypatch, {})
    asked: list[int] = []

    def ask() -> str:
        asked.append(1)
        return "mine" if len(asked) > 1 else ""

    assert WorkersOfSession(99, ask).find() == []
    assert asked == []
    workers = WorkersOfSession(SERVER, ask)
    assert [workers.find() for _ in range(3)] == [[], [10, 11, 12], [10, 11, 12]]
    assert len(asked) == 2, "no mark means: not yet"


@pytest.mark.parametrize(
    ("own", "theirs", "is_killed"),
    [
        (300, 0, False),
        (300 + 3 * 128, 0, False),
        (301 + 3 * 128, 0, True),
        (200, 5000, False),
    ],
)
def test_workers_are_killed_when_together_they_exceed_the_limit_of_their_task(
    monkeypatch: pytest.MonkeyPatch, own: int, theirs: int, is_killed: bool
) -> None:
    machine = Machine(monkeypatch, {11: own - 100, 12: 100, 21: theirs})
    watch = WorkerMemoryWatch(WorkersOfSession(SERVER, lambda: "mine"), 300 * MEGABYTE)
    failure = watch.check()
    assert (failure is not None) is is_killed
    assert machine.killed == (["mine"] if is_killed else [])
    if failure is not None:
        assert failure.error == "OutOfMemory"
        assert f"took {own} MB, and the task may take 300 MB" in failure.message
        assert "runner.memory" in failure.message


def test_pages_that_workers_share_are_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, {11: 2000, 12: 2000})
    monkeypatch.setattr(python_workers, "proportional_bytes", lambda _pid: 10 * MEGABYTE)
    watch = WorkerMemoryWatch(WorkersOfSession(SERVER, lambda: "mine"), 300 * MEGABYTE)
    assert watch.check() is None
    assert machine.killed == []


GIGABYTE = 1024 * MEGABYTE


@pytest.mark.parametrize(
    ("used", "available", "fills"),
    [(5, 0.5, True), (5, 2, False), (1, 0.5, False), (0, 0, False)],
)
def test_a_full_machine_is_due_to_whoever_has_a_large_part_of_it(
    used: float, available: float, fills: bool
) -> None:
    machine = MachineMemory(total=16 * GIGABYTE, available=int(available * GIGABYTE))
    assert fills_machine(int(used * GIGABYTE), machine) is fills


@pytest.mark.parametrize(("available", "is_killed"), [(100, True), (4000, False)])
def test_large_workers_within_their_limit_are_killed_before_the_machine_is_full(
    monkeypatch: pytest.MonkeyPatch, available: int, is_killed: bool
) -> None:
    machine = Machine(monkeypatch, {11: 4000})
    memory = MachineMemory(total=16 * GIGABYTE, available=available * MEGABYTE)
    monkeypatch.setattr(python_workers, "memory_of_machine", lambda: memory)
    watch = WorkerMemoryWatch(WorkersOfSession(SERVER, lambda: "mine"), 8 * GIGABYTE)
    failure = watch.check()
    assert machine.killed == (["mine"] if is_killed else [])
    if failure is not None:
        assert "the machine had only 100 MB left" in failure.message


def test_the_memory_of_this_machine_is_read() -> None:
    machine = memory_of_machine()
    assert 0 < machine.available <= machine.total


def test_a_driver_has_all_workers_below_its_jvm_and_no_other_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Machine(monkeypatch, {})
    below = {7: [SERVER, 5], 10: [11, 12], 20: [21]}
    monkeypatch.setattr(python_workers.os, "getpid", lambda: 7)
    monkeypatch.setattr(python_workers, "descendants_of", lambda pid: below.get(pid, []))
    names = {SERVER: "java", 5: "bash", 10: "python3", 20: "python3", 30: "rm"}
    monkeypatch.setattr(python_workers, "program_of", names.__getitem__)
    assert WorkersOfDriver().find() == [10, 11, 12, 20, 21]


def test_the_failure_says_worker_for_one_and_workers_for_several() -> None:
    assert workers_out_of_memory(1, 1, 1).message.startswith("the Python worker in which")
    assert workers_out_of_memory(1, 1, 3).message.startswith("the 3 Python workers in which")

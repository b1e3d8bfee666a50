"""A task on the classic engine, with a driver that follows a script."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from builders import build_graph
from stoker.core.ids import AttemptId
from stoker.core.regions import regions_of
from stoker.core.results import AttemptOutcome, Progress
from stoker.core.states import ExecutionState
from stoker.engine.classic.task import ClassicTask
from stoker.engine.contract import Task
from stoker.engine.limits import RunnerLimits
from stoker.engine.protocol import Ended, FromRunner, ProgressReport, ToRunner
from stoker.testing.virtual_time import run_virtual, virtual_wall_clock

WRITTEN = Progress(tasks_total=4, tasks_done=3, rows_written=7)


class FakeDriver:
    """A driver that sends the given messages and exits with code 0."""

    last_words = last_output = ""

    def __init__(self, *says: FromRunner) -> None:
        self._says = list(says)
        self.is_gone = False
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def is_alive(self) -> bool:
        return not self.exited.done()

    async def take(self, *_wanted: object) -> "FakeDriver":
        return self

    def log_to(self, directory: Path) -> None: ...

    async def send(self, message: ToRunner) -> None: ...

    async def receive(self) -> FromRunner | None:
        if self._says:
            return self._says.pop(0)
        self.exited.set_result(0)
        return None

    async def kill(self) -> int:
        code = await self.exited
        # Its supervisor takes a moment to end the processes that it has left behind.
        await asyncio.sleep(1)
        self.is_gone = True
        return code


def outcome_of_driver(
    *says: FromRunner, on_release: Callable[[FakeDriver], None] = lambda _driver: None
) -> AttemptOutcome:
    """Run a task; `on_release` is called when its installed requirements may be removed."""

    async def main() -> AttemptOutcome:
        driver = FakeDriver(*says)

        async def install(_task: Task, in_use: ExitStack) -> tuple[str, ...]:
            in_use.callback(on_release, driver)
            return ()

        graph = build_graph()
        task = Task(
            graph=graph,
            region=regions_of(graph)[-1],
            attempt=AttemptId("a" * 32),
            attempt_number=0,
            directory=Path("/nowhere"),
            materialized_root="file:///m",
            checkpoint_root="file:///c",
        )
        running = ClassicTask(
            task,
            cast(Any, driver),
            lambda _event: None,
            install=install,
            limits=RunnerLimits(memory=1, processes=1),
            run_time=None,
            grace=timedelta(seconds=5),
            wall_clock=virtual_wall_clock(),
        )
        return await running.outcome()

    return run_virtual(main)


def test_the_last_message_of_a_task_counts_more_than_a_report_that_comes_later() -> None:
    """A thread of the driver may still poll Spark's UI, which knows of no published rows."""
    outcome = outcome_of_driver(
        ProgressReport(progress=Progress(tasks_total=4)),
        Ended(state=ExecutionState.FINISHED, progress=WRITTEN),
        ProgressReport(progress=Progress(tasks_total=4, tasks_done=4)),
    )
    assert outcome.state is ExecutionState.FINISHED
    assert outcome.progress == WRITTEN


def test_the_requirements_of_a_task_are_kept_until_nothing_is_left_of_its_driver() -> None:
    was_gone: list[bool] = []
    outcome_of_driver(on_release=lambda driver: was_gone.append(driver.is_gone))
    assert was_gone == [True]

"""Each task goes to the engine that its job asks for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from stoker.core.errors import StartupFailed, Unavailable
from stoker.core.graph import EngineKind, JobGraph, Program, SqlScript, Vertex
from stoker.core.ids import AttemptId, JobId
from stoker.core.regions import regions_of
from stoker.engine.contract import EngineState, Listener, Task
from stoker.engine.router import EngineRouter

SQL = SqlScript(name="script", statements=("SELECT 1",))
PROGRAM = Program(name="program", script="job.py")


class RecordingEngine:
    """An engine that records the graphs of its tasks."""

    state = EngineState.READY
    description: ClassVar[Mapping[str, str]] = {}

    def __init__(self) -> None:
        self.launched: list[JobGraph] = []

    async def wait_until_ready(self) -> None: ...

    async def launch(self, task: Task, _listener: Listener) -> Any:
        self.launched.append(task.graph)

    async def close(self) -> None: ...


def task(vertex: Vertex, engine: EngineKind | None) -> Task:
    graph = JobGraph(job_id=JobId("0" * 32), name="job", vertices=(vertex,), engine=engine)
    return Task(
        graph=graph,
        region=regions_of(graph)[0],
        attempt=AttemptId("1" * 32),
        attempt_number=0,
        directory=Path(),
        materialized_root="",
        checkpoint_root="",
    )


@pytest.mark.parametrize(
    ("vertex", "engine", "classic"),
    [
        (SQL, None, False),
        (SQL, EngineKind.CLASSIC, True),
        (PROGRAM, None, True),
        (PROGRAM, EngineKind.CONNECT, False),
    ],
)
async def test_a_task_goes_to_the_engine_of_its_job(
    vertex: Vertex, engine: EngineKind | None, classic: bool
) -> None:
    shared, own = RecordingEngine(), RecordingEngine()
    await EngineRouter(connect=shared, classic=own).launch(
        task(vertex, engine), lambda _event: None
    )
    assert (len(shared.launched), len(own.launched)) == ((0, 1) if classic else (1, 0))


async def test_a_task_for_a_missing_engine_is_refused() -> None:
    engines = EngineRouter(connect=None, classic=RecordingEngine())
    with pytest.raises(Unavailable, match="no connect engine"):
        await engines.launch(task(SQL, None), lambda _event: None)


def test_a_task_executor_without_any_engine_does_not_start() -> None:
    with pytest.raises(StartupFailed, match=r"taskmanager\.engines"):
        EngineRouter(connect=None, classic=None)

"""Runs jobs on a real engine."""

import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from builders import build_graph
from stoker.core.graph import (
    FormatWrite,
    JobGraph,
    PythonFunction,
    Sink,
    Source,
    Sql,
)
from stoker.core.ids import AttemptId
from stoker.core.options import ByteSize
from stoker.core.regions import regions_of
from stoker.core.results import AttemptOutcome, Progress
from stoker.engine.connect.engine import ConnectEngine
from stoker.engine.contract import Progressed, StateChanged, Task, TaskEvent
from stoker.engine.lease import FOREVER, Lease
from stoker.engine.options import EngineOptions

OPTIONS = EngineOptions(
    cancellation_grace=timedelta(seconds=3),
    replenish_delay=timedelta(milliseconds=50),
    runner_processes=40,
    runner_open_files=2000,
    runner_log_size=ByteSize(8 * 1024**2),
    # viewfs://here/… means the same as file:///…, but counts as a file system that is not local.
    spark_properties={
        "spark.hadoop.fs.viewfs.mounttable.here.linkFallback": "file:///",
        # Tables that end with their Spark are refused unless somebody asks for them.
        "spark.sql.catalogImplementation": "in-memory",
    },
)
TEN_ROWS = Source(name="numbers", read=Sql(query="SELECT id FROM range(10)"))
UNINTERRUPTIBLE = Source(name="numbers", read=Sql(query="SELECT * FROM range(1000000000000000)"))
"""Spark's loop over the rows of this query never reaches the code that checks for a cancel."""
TO_NOWHERE = Sink(name="out", input="numbers", write=FormatWrite(format="noop"))


def function(body: Callable[..., Any], *parameters: str) -> PythonFunction:
    """Pickle a function by value, like the authoring API."""
    module = sys.modules[body.__module__]
    cloudpickle.register_pickle_by_value(module)
    try:
        payload = cloudpickle.dumps(body)
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    return PythonFunction(name=body.__name__, payload=payload, parameters=parameters)


def python_job(body: Callable[..., Any], **fields: Any) -> JobGraph:
    """A job whose source is `body`, a function of the Spark session."""
    return build_graph(Source(name="numbers", read=function(body, "spark")), TO_NOWHERE, **fields)


@dataclass
class LaunchedTask:
    running: Any
    directory: Path
    events: list[TaskEvent]

    @property
    def states(self) -> list[str]:
        return [event.state.value for event in self.events if isinstance(event, StateChanged)]

    @property
    def has_progressed(self) -> bool:
        return any(isinstance(event, Progressed) for event in self.events)

    @property
    def last_progress(self) -> Any:
        reported = [event.progress for event in self.events if isinstance(event, Progressed)]
        return reported[-1] if reported else Progress()


@dataclass
class Bench:
    engine: ConnectEngine
    root: Path
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    launched: list[LaunchedTask] = field(default_factory=list)

    async def launch(
        self,
        graph: JobGraph,
        region: str | None = None,
        artifacts: dict[str, Path] | None = None,
        lease: Lease = FOREVER,
        checkpoint_root: str | None = None,
        owner: str = "",
    ) -> LaunchedTask:
        attempt = f"attempt-{next(self.numbers)}"
        directory = self.root / attempt
        directory.mkdir()
        regions = regions_of(graph)
        chosen = next((one for one in regions if one.id == region), regions[-1])
        events: list[TaskEvent] = []
        task = Task(
            graph=graph,
            region=chosen,
            attempt=AttemptId(attempt),
            attempt_number=1,
            directory=directory,
            materialized_root=(self.root / "materialized").as_uri(),
            checkpoint_root=checkpoint_root or (self.root / "checkpoints").as_uri(),
            rows_root=(self.root / "rows" / attempt).as_uri(),
            artifacts=artifacts or {},
            lease_until=lease.until,
            lease_margin=lease.margin,
            owner=owner,
        )
        running = await self.engine.launch(task, events.append)
        launched = LaunchedTask(running, directory, events)
        self.launched.append(launched)
        return launched

    async def end(self) -> None:
        """Cancel all tasks: those of a failed test must not share Spark with the next tests."""
        for launched in self.launched:
            await launched.running.cancel()

    async def run(
        self,
        graph: JobGraph,
        region: str | None = None,
        artifacts: dict[str, Path] | None = None,
        checkpoint_root: str | None = None,
    ) -> AttemptOutcome:
        launched = await self.launch(graph, region, artifacts, checkpoint_root=checkpoint_root)
        return await launched.running.outcome()

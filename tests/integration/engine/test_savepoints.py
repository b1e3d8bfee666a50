"""Savepoints of real queries while they commit and Spark purges: every row once. CKPT-04, CKPT-06.

With STOKER_SAVEPOINTS=long there is more data, and a query with a state of its own.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from integration.engine.bench import Bench, function, job
from integration.engine.stateful_queries import (
    FEW_FILES,
    FILES,
    LONG,
    PURGING,
    QUERIES,
    ROWS,
    graph_of,
    rows_in,
    source,
    write_input,
)
from stoker.core.graph import JobGraph, Sink
from stoker.core.ids import AttemptId, JobId, RegionId
from stoker.core.regions import regions_of
from stoker.core.states import ExecutionState
from stoker.engine.contract import Task
from stoker.engine.stream_control import Decision, StreamControl, SuspendOrder
from stoker.savepoints.examination import examine
from stoker.savepoints.locations import locate, read_manifest
from stoker.savepoints.restore import restore
from stoker.savepoints.take import Occasion, Taking, checkpoint_folder, checkpoints_folder
from stoker.storage.open import open_storage

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(1500)]

OTHER = JobId("1" * 32)


class Cluster:
    """One engine, the storage of a cluster, and queries of several jobs on it."""

    def __init__(self, bench: Bench, root: Path) -> None:
        self.bench = bench
        self.storage = open_storage(str(root / "storage"))
        self.saved = root / "saved"

    async def launch(self, graph: JobGraph, job_id: JobId | None = None) -> tuple[Any, Path]:
        attempt = f"attempt-{next(self.bench.numbers)}"
        directory = self.bench.root / attempt
        directory.mkdir()
        task = Task(
            graph=graph,
            region=regions_of(graph)[-1],
            attempt=AttemptId(attempt),
            attempt_number=0,
            directory=directory,
            materialized_root=self.storage.url("materialized"),
            checkpoint_root=self.storage.url(checkpoints_folder(job_id or graph.job_id)),
        )
        return await self.bench.engine.launch(task, lambda _event: None), directory

    async def finished(self, graph: JobGraph, job_id: JobId | None = None) -> None:
        running, _ = await self.launch(graph, job_id)
        outcome = await running.outcome()
        assert outcome.failure is None, outcome.failure
        assert outcome.state is ExecutionState.FINISHED

    async def take(self, graph: JobGraph, name: str) -> int | None:
        location = locate(str(self.saved / name), open_storage)
        occasion = Occasion(savepoint_id=name, kind="savepoint", at=1)
        manifest = await Taking(self.storage, graph, location, occasion).take([RegionId("out")])
        assert (await examine(str(self.saved / name), open_storage)).is_sound
        return manifest.queries[0].batch_id

    async def restore(self, name: str, job_id: JobId) -> None:
        location = locate(str(self.saved / name), open_storage)
        manifest = await read_manifest(location)
        await restore(location, manifest, self.storage, job_id, regions=["out"], now=2)

    async def until_batch(self, graph: JobGraph, number: int, running: Any = None) -> None:
        """This batch or a later one is committed: earlier ones are purged."""
        ended = None if running is None else asyncio.ensure_future(running.outcome())
        folder = f"{checkpoint_folder(graph.job_id, 'out')}/commits/"

        async def is_there() -> bool:
            assert ended is None or not ended.done(), ended.result().failure
            names = [path.removeprefix(folder) for path in await self.storage.list(folder[:-1])]
            return any(int(name) >= number for name in names if name.isdecimal())

        try:
            await eventually(is_there)
        finally:
            if ended is not None:
                ended.cancel()


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(300):
        while not await condition():  # noqa: ASYNC110 - of other processes
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("name", sorted(QUERIES))
async def test_old_output_up_to_the_savepoint_and_new_output_are_the_whole(
    bench: Bench, tmp_path: Path, name: str
) -> None:
    """The savepoint is taken while batches commit; the job that it was taken of goes on."""
    cluster = Cluster(bench, tmp_path)
    inputs = tmp_path / "in"
    files = FEW_FILES if name == "totals" else FILES
    write_input(inputs, range(files))
    graph = graph_of(name, inputs, tmp_path / "first")
    running, _ = await cluster.launch(graph)
    await cluster.until_batch(graph, 2, running)
    batch = await cluster.take(graph, "live")
    assert batch is not None
    await cluster.until_batch(graph, files - 1, running)
    await running.cancel()
    # As at its clean-up: a savepoint needs nothing of the job that it was taken of.
    await cluster.storage.delete_tree(checkpoints_folder(graph.job_id))
    # The same to its end, without interruption: what is expected.
    whole = graph_of(name, inputs, tmp_path / "whole", "available-now")
    await cluster.finished(whole, JobId("2" * 32))
    expected = rows_in(tmp_path / "whole")
    assert expected

    await cluster.restore("live", OTHER)
    second = graph_of(name, inputs, tmp_path / "second", "available-now")
    await cluster.finished(second, OTHER)
    before = tmp_path / "before"
    before.mkdir()
    log = tmp_path / "first" / "_spark_metadata"
    (before / "_spark_metadata").mkdir()
    for number in range(batch + 1):
        for path in (log / str(number), log / f"{number}.compact"):
            if path.exists():
                (before / "_spark_metadata" / path.name).write_bytes(path.read_bytes())
    assert rows_in(before, tmp_path / "second") == expected


@pytest.mark.skipif(not LONG, reason="Spark gives a Python worker ten seconds: not when busy")
async def test_a_function_ends_at_a_boundary_goes_on_and_sees_every_batch_once(
    bench: Bench, tmp_path: Path
) -> None:
    """A stop that is taken back, then one that is not."""
    cluster = Cluster(bench, tmp_path)
    inputs, effects = tmp_path / "in", str(tmp_path / "effects")
    write_input(inputs, range(4))

    def keep(df, batch_id):
        rows = sorted(row["n"] for row in df.collect())
        with open(effects, "a") as file:
            file.write(json.dumps({"batch": batch_id, "rows": rows}) + "\n")

    sink = Sink(name="out", input="raw", write=function(keep, "df", "batch_id"))
    graph = job(source("raw", inputs), sink, configuration=PURGING)
    running, directory = await cluster.launch(graph)
    control = StreamControl(directory)
    await cluster.until_batch(graph, 1)

    async def suspended(order: str) -> None:
        control.suspend(SuspendOrder(order_id=order, limit_seconds=120, hold_seconds=300))

        async def is_answered() -> bool:
            return control.boundary(order) is not None

        await eventually(is_answered)
        boundary = control.boundary(order)
        assert boundary is not None
        assert boundary.reached

    await suspended("first")
    seen = [json.loads(line)["batch"] for line in Path(effects).read_text().splitlines()]
    assert seen == list(range(len(seen)))
    control.decide(Decision(order_id="first", finish=False))
    write_input(inputs, range(4, 6))
    await cluster.until_batch(graph, 5)
    await suspended("second")
    control.decide(Decision(order_id="second", finish=True))
    outcome = await running.outcome()
    assert outcome.state is ExecutionState.FINISHED, outcome.failure
    written = [json.loads(line) for line in Path(effects).read_text().splitlines()]
    assert [entry["batch"] for entry in written] == list(range(len(written)))
    rows = sorted(row for entry in written for row in entry["rows"])
    expected = sorted([*range(6 * ROWS), *(file * ROWS for file in range(6))])
    assert rows == expected


async def test_a_used_directory_is_refused_rather_than_left_out(
    bench: Bench, tmp_path: Path
) -> None:
    cluster = Cluster(bench, tmp_path)
    write_input(tmp_path / "in", range(3))
    graph = graph_of("distinct", tmp_path / "in", tmp_path / "out", "available-now")
    await cluster.finished(graph)
    running, _ = await cluster.launch(graph, OTHER)
    failure = (await running.outcome()).failure
    assert failure is not None
    assert failure.error == "SinkIsAhead"
    assert "write into another directory" in failure.message
    assert not failure.retriable

"""Savepoints of real queries while they commit and Spark purges: every row once. CKPT-04, CKPT-06.

Queries with a window that evicts, a join of two streams, and a deduplication. With
STOKER_SAVEPOINTS=long there is more data.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from integration.engine.bench import Bench, function, job
from stoker.core.graph import FormatRead, FormatWrite, JobGraph, Sink, Source, Transform
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

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

LONG = os.environ.get("STOKER_SAVEPOINTS") == "long"
FILES, ROWS = (40, 500) if LONG else (8, 40)
PURGING = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
}
OTHER = JobId("1" * 32)


def write_input(folder: Path, numbers: Iterable[int]) -> None:
    """One file for each number, half a minute of event time each, with rows that come twice."""
    folder.mkdir(exist_ok=True)
    for file in numbers:
        rows = [
            {"n": n, "k": n % 11, "at": f"2024-01-01T{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}"}
            for n in range(file * ROWS, (file + 1) * ROWS)
        ]
        text = "".join(json.dumps(row) + "\n" for row in [*rows, rows[0]])
        unfinished = folder / f".{file}"
        unfinished.write_text(text)
        unfinished.rename(folder / f"{file:05}.json")


def source(name: str, folder: Path) -> Source:
    schema = "n LONG, k LONG, at TIMESTAMP"
    options = {"maxFilesPerTrigger": "1"}
    read = FormatRead(format="json", path=str(folder), schema=schema, options=options)
    return Source(name=name, read=read, streaming=True)


def windows(raw):
    from pyspark.sql import functions as f  # noqa: PLC0415

    timed = raw.withWatermark("at", "10 seconds")
    counted = timed.groupBy(f.window("at", "20 seconds")).agg(f.count("*").alias("rows"))
    return counted.select(f.unix_timestamp("window.start").alias("key"), "rows")


def distinct(raw):
    timed = raw.withWatermark("at", "1 minute").dropDuplicatesWithinWatermark(["n"])
    return timed.selectExpr("n AS key", "1 AS rows")


def joined(left, right):
    from pyspark.sql import functions as f  # noqa: PLC0415

    a = left.withWatermark("at", "1 minute").dropDuplicatesWithinWatermark(["n"]).alias("a")
    b = right.withWatermark("at", "1 minute").selectExpr("n AS m", "at AS seen").alias("b")
    both = a.join(b, f.expr("n = m AND seen BETWEEN at AND at + INTERVAL 1 SECOND"))
    return both.selectExpr("n AS key", "1 AS rows")


QUERIES: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "windows": (windows, ("raw",)),
    "distinct": (distinct, ("raw",)),
    "joined": (joined, ("left", "right")),
}


def graph_of(name: str, inputs: Path, out: Path, trigger: str | None = None) -> JobGraph:
    compute, sources = QUERIES[name]
    return job(
        *(source(each, inputs) for each in sources),
        Transform(name="computed", inputs=sources, compute=function(compute, *sources)),
        Sink(
            name="out",
            input="computed",
            write=FormatWrite(format="parquet", path=str(out)),
            mode="append",
            trigger=trigger,
        ),
        configuration=PURGING,
    )


def rows_in(*directories: Path) -> list[tuple[int, int]]:
    """Of the committed batches of file sinks."""
    files: set[str] = set()
    for directory in directories:
        for batch in (directory / "_spark_metadata").glob("[0-9]*"):
            entries = [json.loads(line) for line in batch.read_text().splitlines()[1:]]
            files |= {entry["path"].removeprefix("file://") for entry in entries}
    if not files:
        return []
    table = pyarrow.dataset.dataset(sorted(files), format="parquet").to_table()
    return sorted(zip(table["key"].to_pylist(), table["rows"].to_pylist(), strict=True))


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

    async def until_batch(self, graph: JobGraph, number: int) -> None:
        """This batch or a later one is committed: earlier ones are purged."""
        folder = f"{checkpoint_folder(graph.job_id, 'out')}/commits/"

        async def is_there() -> bool:
            names = [path.removeprefix(folder) for path in await self.storage.list(folder[:-1])]
            return any(int(name) >= number for name in names if name.isdecimal())

        await eventually(is_there)


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
    write_input(inputs, range(FILES))
    graph = graph_of(name, inputs, tmp_path / "first")
    running, _ = await cluster.launch(graph)
    await cluster.until_batch(graph, 2)
    batch = await cluster.take(graph, "live")
    assert batch is not None
    await cluster.until_batch(graph, FILES - 1)
    await running.cancel()
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

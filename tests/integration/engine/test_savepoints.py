"""Savepoints of real queries while they commit and Spark purges: every row once.

With STOKER_SAVEPOINTS=long there is more data, and a query with a state of its own.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from builders import build_graph, eventually
from integration.engine.bench import Bench, function
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
from stoker.core.graph import FormatWrite, JobGraph, Restore, Sink, Transform
from stoker.core.ids import AttemptId, JobId, RegionId
from stoker.core.regions import regions_of
from stoker.core.states import ExecutionState
from stoker.engine.contract import Task
from stoker.engine.streams.control import Decision, StreamControl, SuspendOrder
from stoker.processes.repartitioning import repartition_savepoint
from stoker.savepoints.examination import examine
from stoker.savepoints.locations import locate, read_manifest
from stoker.savepoints.restore import restore
from stoker.savepoints.take import (
    SavepointHeader,
    SavepointWriter,
    checkpoint_folder,
    checkpoints_folder,
)
from stoker.storage.open import open_storage

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(1500)]

OTHER = JobId("1" * 32)


class Cluster:
    """One engine, the storage of a cluster, and queries of several jobs on it."""

    def __init__(self, bench: Bench, root: Path) -> None:
        self.bench = bench
        self.root = root
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
        header = SavepointHeader(savepoint_id=name, kind="savepoint", at=1)
        manifest = await SavepointWriter(self.storage, graph, location, header).write(
            [RegionId("out")]
        )
        assert (await examine(str(self.saved / name), open_storage)).is_sound
        return manifest.queries[0].batch_id

    async def restore(self, name: str, job_id: JobId) -> None:
        location = locate(str(self.saved / name), open_storage)
        manifest = await read_manifest(location)
        await restore(location, manifest, self.storage, job_id, regions=["out"], now=2)

    def going_on(self, graph: JobGraph, name: str) -> JobGraph:
        """As it is submitted to begin from this savepoint."""
        return msgspec.structs.replace(graph, restore=Restore(path=str(self.saved / name)))

    async def until_batch(self, graph: JobGraph, number: int, running: Any = None) -> None:
        """This batch or a later one is committed: earlier ones are purged."""
        ended = None if running is None else asyncio.ensure_future(running.outcome())
        folder = f"{checkpoint_folder(graph.job_id, 'out')}/commits/"

        async def is_there() -> bool:
            assert ended is None or not ended.done(), ended.result().failure
            names = [path.removeprefix(folder) for path in await self.storage.list(folder[:-1])]
            return any(int(name) >= number for name in names if name.isdecimal())

        try:
            await eventually(is_there, seconds=300)
        finally:
            if ended is not None:
                ended.cancel()


@pytest.mark.parametrize("name", sorted(QUERIES))
async def test_old_output_up_to_the_savepoint_and_new_output_are_the_whole(
    bench: Bench, tmp_path: Path, name: str
) -> None:
    """The savepoint is taken while batches commit; its job continues (CKPT-06)."""
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
    await cluster.finished(cluster.going_on(second, "live"), OTHER)
    before = tmp_path / "before"
    before.mkdir()
    log = tmp_path / "first" / "_spark_metadata"
    (before / "_spark_metadata").mkdir()
    for number in range(batch + 1):
        for path in (log / str(number), log / f"{number}.compact"):
            if path.exists():
                (before / "_spark_metadata" / path.name).write_bytes(path.read_bytes())
    assert rows_in(before, tmp_path / "second") == expected


def written_by_batches(root: Path) -> dict[Path, int]:
    """When each file was written last, without those of snapshots, which Spark makes by itself."""
    found: dict[Path, int] = {}
    for path in root.rglob("*"):
        # Spark removes old ones at the same time.
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and ".zip" not in path.name and "SSTs" not in path.parts:
                found[path] = path.stat().st_mtime_ns
    return found


async def test_of_a_cancelled_stream_nothing_runs_on_but_snapshots_of_state_it_had(
    bench: Bench, tmp_path: Path
) -> None:
    """Design invariant 3: else it would write beside the next attempt, or behind a clean-up."""
    cluster = Cluster(bench, tmp_path)
    write_input(tmp_path / "in", range(FILES))
    graph = graph_of("distinct", tmp_path / "in", tmp_path / "out")
    running, _ = await cluster.launch(graph)
    await cluster.until_batch(graph, 1, running)
    await running.cancel()
    places = [cluster.root / "storage", tmp_path / "out"]
    before = {path: at for place in places for path, at in written_by_batches(place).items()}
    assert any(path.suffix == ".changelog" for path in before)
    # Longer than Spark takes to see to a Python worker, or to the state of a store.
    await asyncio.sleep(4)
    after = {path: at for place in places for path, at in written_by_batches(place).items()}
    assert {path for path, at in after.items() if before.get(path) != at} == set()


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
    graph = build_graph(source("raw", inputs), sink, configuration=PURGING)
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


@pytest.mark.skipif(not LONG, reason="several runs, and a Spark that divides the state")
@pytest.mark.parametrize("name", ["distinct", "joined", "windows"])
async def test_a_query_whose_state_was_divided_anew_writes_what_it_would_have_written(
    bench: Bench, tmp_path: Path, name: str
) -> None:
    """From one savepoint: as it is, divided into more partitions, and those into fewer."""
    cluster = Cluster(bench, tmp_path)
    inputs = tmp_path / "in"
    write_input(inputs, range(4))
    first = graph_of(name, inputs, tmp_path / "first", "available-now")
    await cluster.finished(first)
    await cluster.take(first, "whole")
    write_input(inputs, range(4, 12))
    whole = str(cluster.saved / "whole")
    more = await repartition_savepoint(whole, 5, str(cluster.saved))
    fewer = await repartition_savepoint(more, 1, str(cluster.saved))
    written = []
    for number, path in enumerate([whole, more, fewer]):
        job_id = JobId(f"{number + 3}" * 32)
        saved = path.rpartition("/")[2]
        await cluster.restore(saved, job_id)
        out = tmp_path / f"after-{number}"
        after = graph_of(name, inputs, out, "available-now")
        await cluster.finished(cluster.going_on(after, saved), job_id)
        written.append(rows_in(out))
    assert written[0]
    assert written[1] == written[0]
    assert written[2] == written[0]


def distinct_by_group(raw):
    timed = raw.withWatermark("at", "1 minute").dropDuplicatesWithinWatermark(["k"])
    return timed.selectExpr("n AS key", "1 AS rows")


async def test_a_function_that_keeps_state_by_another_column_is_refused_before_it_begins(
    bench: Bench, tmp_path: Path
) -> None:
    """CKPT-13: both columns are numbers, so that Spark itself would not mind."""
    cluster = Cluster(bench, tmp_path)
    write_input(tmp_path / "in", range(2))
    graph = graph_of("distinct", tmp_path / "in", tmp_path / "first", "available-now")
    await cluster.finished(graph)
    await cluster.take(graph, "done")
    await cluster.restore("done", OTHER)
    second = graph_of("distinct", tmp_path / "in", tmp_path / "second", "available-now")
    second = cluster.going_on(second, "done")
    other = Transform(name="computed", inputs=("raw",), compute=function(distinct_by_group, "raw"))
    vertices = tuple(other if v.name == "computed" else v for v in second.vertices)
    running, _ = await cluster.launch(msgspec.structs.replace(second, vertices=vertices), OTHER)
    failure = (await running.outcome()).failure
    assert failure is not None
    assert failure.error == "IncompatibleState"
    assert "keeps its state by k, and its saved state is kept by n" in failure.message
    assert not failure.retriable
    assert rows_in(tmp_path / "second") == []
    await cluster.finished(second, OTHER)


def by_remainder(divisor, seconds=20):
    def grouped(raw):
        from pyspark.sql import functions as f  # noqa: PLC0415

        timed = raw.withWatermark("at", "10 seconds")
        counted = timed.groupBy(
            (f.col("n") % divisor).alias("g"), f.window("at", f"{seconds} seconds")
        )
        return counted.agg(f.count("*").alias("rows")).selectExpr("g AS key", "rows")

    return grouped


def both_sides(kind, compared="n = m"):
    def both(raw):
        from pyspark.sql import functions as f  # noqa: PLC0415

        left = raw.withWatermark("at", "1 minute")
        right = raw.withWatermark("at", "1 minute").selectExpr("n AS m", "k AS j", "at AS seen")
        near = f"{compared} AND seen BETWEEN at AND at + INTERVAL 1 SECOND"
        return left.join(right, f.expr(near), kind).selectExpr("n AS key", "1 AS rows")

    return both


def sessions_by(column):
    def sessions(raw):
        from pyspark.sql import functions as f  # noqa: PLC0415

        timed = raw.withWatermark("at", "1 minute")
        counted = timed.groupBy(f.session_window("at", "5 seconds"), column)
        return counted.agg(f.count("*").alias("rows")).selectExpr(f"{column} AS key", "rows")

    return sessions


CHANGES = {
    "expression": (by_remainder(3), by_remainder(5), "groups by .*% .*5"),
    "type-of-join": (both_sides("inner"), both_sides("leftOuter"), "join of type LeftOuter"),
}
if LONG:
    CHANGES |= {
        "window": (by_remainder(3), by_remainder(3, 40), "groups by .*window of"),
        "compared": (both_sides("inner"), both_sides("inner", "k = j"), "joins k with j"),
        "sessions": (sessions_by("n"), sessions_by("k"), "keeps its state by k"),
    }


@pytest.mark.parametrize("change", CHANGES)
async def test_state_that_was_kept_for_something_else_is_refused_though_spark_would_take_it(
    bench: Bench, tmp_path: Path, change: str
) -> None:
    """CKPT-13: types and operators are as they were; what they mean is not."""
    before, after, words = CHANGES[change]
    cluster = Cluster(bench, tmp_path)
    write_input(tmp_path / "in", range(2))

    def computing(compute: Callable[..., Any], out: str) -> JobGraph:
        graph = graph_of("distinct", tmp_path / "in", tmp_path / out, "available-now")
        other = Transform(name="computed", inputs=("raw",), compute=function(compute, "raw"))
        vertices = tuple(other if v.name == "computed" else v for v in graph.vertices)
        return msgspec.structs.replace(graph, vertices=vertices)

    first = computing(before, "first")
    await cluster.finished(first)
    await cluster.take(first, "done")
    await cluster.restore("done", OTHER)
    second = cluster.going_on(computing(after, "second"), "done")
    running, _ = await cluster.launch(second, OTHER)
    failure = (await running.outcome()).failure
    assert failure is not None
    assert (failure.error, failure.retriable) == ("IncompatibleState", False)
    assert re.search(words, failure.message), failure.message
    await cluster.finished(cluster.going_on(computing(before, "second"), "done"), OTHER)


async def test_in_a_store_that_only_spark_reaches_a_restored_job_needs_the_log_of_its_sink(
    bench: Bench, tmp_path: Path
) -> None:
    """Elsewhere it is begun for it; here Spark would fail batches later, with half the output."""
    cluster = Cluster(bench, tmp_path)
    write_input(tmp_path / "in", range(2))

    def writing_to(folder: str) -> JobGraph:
        graph = graph_of("distinct", tmp_path / "in", tmp_path / folder, "available-now")
        (sink,) = [vertex for vertex in graph.vertices if isinstance(vertex, Sink)]
        write = FormatWrite(format="parquet", path=f"viewfs://here{tmp_path / folder}")
        moved = msgspec.structs.replace(sink, write=write)
        vertices = tuple(moved if v is sink else v for v in graph.vertices)
        return cluster.going_on(msgspec.structs.replace(graph, vertices=vertices), "done")

    first = writing_to("first")
    await cluster.finished(first)
    await cluster.take(first, "done")
    await cluster.restore("done", OTHER)
    write_input(tmp_path / "in", range(2, 4))
    running, _ = await cluster.launch(writing_to("second"), OTHER)
    failure = (await running.outcome()).failure
    assert failure is not None
    assert failure.error == "SinkHasNoLog"
    assert not failure.retriable
    before = len(list((tmp_path / "first" / "_spark_metadata").glob("[0-9]*")))
    await cluster.finished(first, OTHER)
    assert len(list((tmp_path / "first" / "_spark_metadata").glob("[0-9]*"))) > before
    third = JobId("2" * 32)
    await cluster.restore("done", third)
    running, _ = await cluster.launch(first, third)
    failure = (await running.outcome()).failure
    assert failure is not None
    assert failure.error == "SinkIsAhead"


async def test_checkpoints_where_spark_has_no_file_system_are_refused_with_what_it_needs(
    bench: Bench, tmp_path: Path
) -> None:
    write_input(tmp_path / "in", range(1))
    graph = graph_of("distinct", tmp_path / "in", tmp_path / "out", "available-now")
    outcome = await bench.run(graph, checkpoint_root="memory://cluster/checkpoints")
    assert outcome.failure is not None
    assert outcome.failure.error == "NoSuchFileSystem"
    assert "spark.hadoop.fs.memory.impl" in outcome.failure.message
    assert not outcome.failure.retriable

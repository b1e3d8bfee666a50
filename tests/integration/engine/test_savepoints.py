"""Savepoints of real queries that commit batches while Spark purges old files: every row once.

With TEST_SAVEPOINTS=long there is more data, and a query that manages its state itself.
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
    PURGE_EARLY,
    QUERIES,
    ROWS,
    graph_of_query,
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
from stoker.storage.open import open_place, open_storage

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(1500)]

OTHER = JobId("1" * 32)


class Cluster:
    """One engine and the storage of a cluster, for queries of several jobs."""

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

    async def run_to_end(self, graph: JobGraph, job_id: JobId | None = None) -> None:
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

    def continued_from(self, graph: JobGraph, name: str) -> JobGraph:
        """The graph of a job that starts from this savepoint."""
        return msgspec.structs.replace(graph, restore=Restore(path=str(self.saved / name)))

    async def until_batch(self, graph: JobGraph, number: int, running: Any = None) -> None:
        """Wait until this batch or a later one is committed; Spark purges earlier commits."""
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
async def test_output_before_and_after_a_savepoint_has_every_row_once(
    bench: Bench, tmp_path: Path, name: str
) -> None:
    """The savepoint is taken while batches commit, and its job continues (CKPT-06)."""
    cluster = Cluster(bench, tmp_path)
    inputs = tmp_path / "in"
    files = FEW_FILES if name == "totals" else FILES
    write_input(inputs, range(files))
    graph = graph_of_query(name, inputs, tmp_path / "first")
    running, _ = await cluster.launch(graph)
    await cluster.until_batch(graph, 2, running)
    batch = await cluster.take(graph, "live")
    assert batch is not None
    await cluster.until_batch(graph, files - 1, running)
    await running.cancel()
    # The clean-up of the job deletes its checkpoints: the savepoint needs none of them.
    await cluster.storage.delete_tree(checkpoints_folder(graph.job_id))
    # The expected output: the same query from start to end, without interruption.
    whole = graph_of_query(name, inputs, tmp_path / "whole", "available-now")
    await cluster.run_to_end(whole, JobId("2" * 32))
    expected = rows_in(tmp_path / "whole")
    assert expected

    await cluster.restore("live", OTHER)
    second = graph_of_query(name, inputs, tmp_path / "second", "available-now")
    await cluster.run_to_end(cluster.continued_from(second, "live"), OTHER)
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
    """The time of the last write of each file, except snapshots, which Spark makes on its own."""
    found: dict[Path, int] = {}
    for path in root.rglob("*"):
        # Spark removes old files at the same time.
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and ".zip" not in path.name and "SSTs" not in path.parts:
                found[path] = path.stat().st_mtime_ns
    return found


async def test_a_cancelled_stream_writes_nothing_but_snapshots_of_its_state(
    bench: Bench, tmp_path: Path
) -> None:
    """The stream must not write beside the next attempt, or after a clean-up (invariant 3)."""
    cluster = Cluster(bench, tmp_path)
    write_input(tmp_path / "in", range(FILES))
    graph = graph_of_query("distinct", tmp_path / "in", tmp_path / "out")
    running, _ = await cluster.launch(graph)
    await cluster.until_batch(graph, 1, running)
    await running.cancel()
    places = [cluster.root / "storage", tmp_path / "out"]
    before = {path: at for place in places for path, at in written_by_batches(place).items()}
    assert any(path.suffix == ".changelog" for path in before)
    # Longer than Spark's interval for checking Python workers, and for maintaining state stores.
    await asyncio.sleep(4)
    after = {path: at for place in places for path, at in written_by_batches(place).items()}
    assert {path for path, at in after.items() if before.get(path) != at} == set()


@pytest.mark.skipif(not LONG, reason="a busy machine exceeds Spark's ten seconds for a worker")
async def test_a_function_stopped_at_batch_boundaries_sees_every_batch_once(
    bench: Bench, tmp_path: Path
) -> None:
    """The first stop is withdrawn, the second one ends the task."""
    cluster = Cluster(bench, tmp_path)
    inputs, effects = tmp_path / "in", str(tmp_path / "effects")
    write_input(inputs, range(4))

    def keep(df, batch_id):
        rows = sorted(row["n"] for row in df.collect())
        with open(effects, "a") as file:
            file.write(json.dumps({"batch": batch_id, "rows": rows}) + "\n")

    sink = Sink(name="out", input="raw", write=function(keep, "df", "batch_id"))
    graph = build_graph(source("raw", inputs), sink, configuration=PURGE_EARLY)
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


async def test_a_new_job_is_refused_an_output_directory_with_batches_of_another(
    bench: Bench, tmp_path: Path
) -> None:
    cluster = Cluster(bench, tmp_path)
    write_input(tmp_path / "in", range(3))
    graph = graph_of_query("distinct", tmp_path / "in", tmp_path / "out", "available-now")
    await cluster.run_to_end(graph)
    running, _ = await cluster.launch(graph, OTHER)
    failure = (await running.outcome()).failure
    assert failure is not None
    assert failure.error == "SinkIsAhead"
    assert "(3) write into another directory" in failure.message
    assert not failure.retriable


@pytest.mark.skipif(not LONG, reason="several runs, and Spark repartitions the state")
@pytest.mark.parametrize("name", ["distinct", "joined", "windows"])
async def test_a_query_writes_the_same_output_after_its_state_is_repartitioned(
    bench: Bench, tmp_path: Path, name: str
) -> None:
    """One savepoint is restored unchanged, with more partitions, and with fewer."""
    cluster = Cluster(bench, tmp_path)
    inputs = tmp_path / "in"
    write_input(inputs, range(4))
    first = graph_of_query(name, inputs, tmp_path / "first", "available-now")
    await cluster.run_to_end(first)
    await cluster.take(first, "whole")
    write_input(inputs, range(4, 12))
    whole = str(cluster.saved / "whole")
    more = await repartition_savepoint(whole, 5, str(cluster.saved), open_place)
    fewer = await repartition_savepoint(more, 1, str(cluster.saved), open_place)
    written = []
    for number, path in enumerate([whole, more, fewer]):
        job_id = JobId(f"{number + 3}" * 32)
        saved = path.rpartition("/")[2]
        await cluster.restore(saved, job_id)
        out = tmp_path / f"after-{number}"
        after = graph_of_query(name, inputs, out, "available-now")
        await cluster.run_to_end(cluster.continued_from(after, saved), job_id)
        written.append(rows_in(out))
    assert written[0]
    assert written[1] == written[0]
    assert written[2] == written[0]


def distinct_by_group(raw):
    timed = raw.withWatermark("at", "1 minute").dropDuplicatesWithinWatermark(["k"])
    return timed.selectExpr("n AS key", "1 AS rows")


async def test_a_function_that_keeps_state_by_another_column_is_refused_before_its_first_batch(
    bench: Bench, tmp_path: Path
) -> None:
    """Both columns are numbers, so Spark itself would accept the change (CKPT-13)."""
    cluster = Cluster(bench, tmp_path)
    write_input(tmp_path / "in", range(2))
    graph = graph_of_query("distinct", tmp_path / "in", tmp_path / "first", "available-now")
    await cluster.run_to_end(graph)
    await cluster.take(graph, "done")
    await cluster.restore("done", OTHER)
    second = graph_of_query("distinct", tmp_path / "in", tmp_path / "second", "available-now")
    second = cluster.continued_from(second, "done")
    other = Transform(name="computed", inputs=("raw",), compute=function(distinct_by_group, "raw"))
    vertices = tuple(other if v.name == "computed" else v for v in second.vertices)
    running, _ = await cluster.launch(msgspec.structs.replace(second, vertices=vertices), OTHER)
    failure = (await running.outcome()).failure
    assert failure is not None
    assert failure.error == "IncompatibleState"
    assert "keeps its state by k, and its saved state is kept by n" in failure.message
    assert not failure.retriable
    assert rows_in(tmp_path / "second") == []
    await cluster.run_to_end(second, OTHER)


def by_remainder(divisor, seconds=20):
    def grouped(raw):
        from pyspark.sql import functions as f  # noqa: PLC0415

        timed = raw.withWatermark("at", "10 seconds")
        counted = timed.groupBy(
            (f.col("n") % divisor).alias("g"), f.window("at", f"{seconds} seconds")
        )
        return counted.agg(f.count("*").alias("rows")).selectExpr("g AS key", "rows")

    return grouped


def by_remainder_in_sql(divisor):
    def grouped(raw):
        raw.withWatermark("at", "10 seconds").createOrReplaceTempView("timed")
        return raw.sparkSession.sql(
            f"SELECT n % {divisor} AS key, count(*) AS rows FROM timed "
            f"GROUP BY n % {divisor}, window(at, '20 seconds')"
        )

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
    "expression-in-sql": (by_remainder_in_sql(3), by_remainder_in_sql(5), "groups by .*% .*5"),
    "type-of-join": (both_sides("inner"), both_sides("leftOuter"), "join of type LeftOuter"),
}
if LONG:
    CHANGES |= {
        "window": (
            by_remainder(3),
            by_remainder(3, 40),
            r"groups by window\(at, 40 seconds\), and .* by window\(at, 20 seconds\)",
        ),
        "compared": (both_sides("inner"), both_sides("inner", "k = j"), "joins k with j"),
        "sessions": (sessions_by("n"), sessions_by("k"), "groups by .*k, and its saved"),
    }


@pytest.mark.parametrize("change", CHANGES)
async def test_state_of_another_meaning_is_refused_although_spark_accepts_it(
    bench: Bench, tmp_path: Path, change: str
) -> None:
    """Types and operators are the same as before, but their meaning has changed (CKPT-13)."""
    before, after, words = CHANGES[change]
    cluster = Cluster(bench, tmp_path)
    write_input(tmp_path / "in", range(2))

    def computing(compute: Callable[..., Any], out: str) -> JobGraph:
        graph = graph_of_query("distinct", tmp_path / "in", tmp_path / out, "available-now")
        other = Transform(name="computed", inputs=("raw",), compute=function(compute, "raw"))
        vertices = tuple(other if v.name == "computed" else v for v in graph.vertices)
        return msgspec.structs.replace(graph, vertices=vertices)

    first = computing(before, "first")
    await cluster.run_to_end(first)
    await cluster.take(first, "done")
    await cluster.restore("done", OTHER)
    second = cluster.continued_from(computing(after, "second"), "done")
    running, _ = await cluster.launch(second, OTHER)
    failure = (await running.outcome()).failure
    assert failure is not None
    assert (failure.error, failure.retriable) == ("IncompatibleState", False)
    assert re.search(words, failure.message), failure.message
    await cluster.run_to_end(cluster.continued_from(computing(before, "second"), "done"), OTHER)


async def test_a_restored_job_needs_the_sink_log_in_a_store_that_only_spark_reaches(
    bench: Bench, tmp_path: Path
) -> None:
    """In a local directory Stoker creates the log. Here Spark would fail some batches later."""
    cluster = Cluster(bench, tmp_path)
    write_input(tmp_path / "in", range(2))

    def writing_to(folder: str) -> JobGraph:
        graph = graph_of_query("distinct", tmp_path / "in", tmp_path / folder, "available-now")
        (sink,) = [vertex for vertex in graph.vertices if isinstance(vertex, Sink)]
        write = FormatWrite(format="parquet", path=f"viewfs://here{tmp_path / folder}")
        moved = msgspec.structs.replace(sink, write=write)
        vertices = tuple(moved if v is sink else v for v in graph.vertices)
        return cluster.continued_from(msgspec.structs.replace(graph, vertices=vertices), "done")

    first = writing_to("first")
    await cluster.run_to_end(first)
    await cluster.take(first, "done")
    await cluster.restore("done", OTHER)
    write_input(tmp_path / "in", range(2, 4))
    running, _ = await cluster.launch(writing_to("second"), OTHER)
    failure = (await running.outcome()).failure
    assert failure is not None
    assert failure.error == "SinkHasNoLog"
    assert not failure.retriable
    before = len(list((tmp_path / "first" / "_spark_metadata").glob("[0-9]*")))
    await cluster.run_to_end(first, OTHER)
    assert len(list((tmp_path / "first" / "_spark_metadata").glob("[0-9]*"))) > before
    third = JobId("2" * 32)
    await cluster.restore("done", third)
    running, _ = await cluster.launch(first, third)
    failure = (await running.outcome()).failure
    assert failure is not None
    assert failure.error == "SinkIsAhead"


async def test_a_checkpoint_url_without_a_spark_file_system_is_refused_with_the_missing_settings(
    bench: Bench, tmp_path: Path
) -> None:
    write_input(tmp_path / "in", range(1))
    graph = graph_of_query("distinct", tmp_path / "in", tmp_path / "out", "available-now")
    outcome = await bench.run(graph, checkpoint_root="memory://cluster/checkpoints")
    assert outcome.failure is not None
    assert outcome.failure.error == "NoSuchFileSystem"
    assert "spark.hadoop.fs.memory.impl" in outcome.failure.message
    assert not outcome.failure.retriable

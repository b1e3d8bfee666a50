"""A cancel ends any task within ten seconds, together with its work in Spark."""

# Functions that are sent to a runner contain their own imports.
# ruff: noqa: PLC0415

import asyncio
import os
import signal
from pathlib import Path

import pytest

from builders import build_graph, eventually
from integration.engine.bench import TO_NOWHERE, Bench, LaunchedTask, function
from integration.engine.processes import PATIENCE, cancel_within_ten_seconds, runner_of
from stoker.core.graph import FormatRead, JobGraph, Sink, Source, Sql, Transform
from stoker.engine.connect.engine import ConnectEngine
from stoker.engine.runner.janitor import has_active_tasks

pytestmark = pytest.mark.asyncio(loop_scope="session")


def endless_loop(begun: Path) -> JobGraph:
    def tight(spark):
        begun.touch()
        while True:
            pass

    return build_graph(Source(name="numbers", read=function(tight, "spark")), TO_NOWHERE)


def uninterruptible_loop(begun: Path) -> JobGraph:
    def uninterruptible(spark):
        import signal

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        begun.touch()
        while True:
            pass

    return build_graph(Source(name="numbers", read=function(uninterruptible, "spark")), TO_NOWHERE)


def sleeping_udf(begun: Path) -> JobGraph:
    def asleep(spark):
        from pyspark.sql.functions import udf

        @udf("long")
        def for_an_hour(value):
            import time

            begun.touch()
            time.sleep(3600)
            return value

        return spark.range(2).select(for_an_hour("id").alias("id"))

    return build_graph(Source(name="numbers", read=function(asleep, "spark")), TO_NOWHERE)


def sleeping_batch(begun: Path) -> JobGraph:
    def batch(df, batch_id):
        import time

        begun.touch()
        time.sleep(3600)

    source = Source(name="numbers", read=FormatRead(format="rate"), streaming=True)
    return build_graph(
        source, Sink(name="out", input="numbers", write=function(batch, "df", "batch_id"))
    )


def endless_stage(begun: Path) -> JobGraph:
    def announced(spark):
        begun.touch()
        return spark.range(10_000_000)

    query = "SELECT sum(hash(a.id, b.id)) AS id FROM many a CROSS JOIN many b"
    return build_graph(
        Source(name="many", read=function(announced, "spark")),
        Transform(name="numbers", inputs=("many",), compute=Sql(query=query)),
        TO_NOWHERE,
    )


async def wait_until_begun(launched: LaunchedTask, begun: Path) -> None:
    def look() -> bool:
        assert not launched.running.completion.done(), launched.running.completion.result()
        return begun.exists()

    await eventually(look, seconds=PATIENCE)


@pytest.mark.parametrize(
    "graph", [endless_loop, uninterruptible_loop, sleeping_udf, sleeping_batch, endless_stage]
)
async def test_a_cancelled_task_and_its_stages_end_within_ten_seconds(
    bench: Bench, engine: ConnectEngine, tmp_path: Path, graph
) -> None:
    begun = tmp_path / "begun"
    launched = await bench.launch(graph(begun))
    await wait_until_begun(launched, begun)
    if graph is endless_stage:
        await eventually(lambda: any_tasks_of(engine, launched), seconds=PATIENCE)
    await cancel_within_ten_seconds(launched)
    assert not await asyncio.to_thread(any_tasks_of, engine, launched)


async def test_a_runner_that_is_killed_while_it_writes_leaves_no_tasks_at_spark(
    bench: Bench, engine: ConnectEngine, tmp_path: Path
) -> None:
    """After the runner's death no client waits for the answer to the write."""
    begun = tmp_path / "begun"
    launched = await bench.launch(endless_stage(begun))
    await wait_until_begun(launched, begun)
    await eventually(lambda: any_tasks_of(engine, launched), seconds=PATIENCE)
    os.kill(runner_of(engine, launched), signal.SIGKILL)
    outcome = await asyncio.wait_for(launched.running.outcome(), 10)
    assert outcome.failure is not None
    assert "SIGKILL" in outcome.failure.message
    assert not await asyncio.to_thread(any_tasks_of, engine, launched)


async def test_the_kernel_is_told_to_kill_runners_before_the_server_when_memory_runs_out(
    bench: Bench, engine: ConnectEngine, tmp_path: Path
) -> None:
    launched = await bench.launch(endless_loop(tmp_path / "begun"))
    await wait_until_begun(launched, tmp_path / "begun")
    assert oom_score_adjustment(runner_of(engine, launched)) == 500
    assert oom_score_adjustment(int(engine.description["server-pid"])) < 500
    await cancel_within_ten_seconds(launched)


def oom_score_adjustment(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


def any_tasks_of(engine: ConnectEngine, launched: LaunchedTask) -> bool:
    owners = {launched.running.session_id}
    if launched.has_progressed and launched.last_progress.run_id is not None:
        owners.add(launched.last_progress.run_id)
    return has_active_tasks(launched.running.server.ui, owners)

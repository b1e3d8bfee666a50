"""Spark servers that grow old or run out of memory, on an engine for this module only."""

# Functions that are sent to a runner contain their own imports.
# ruff: noqa: PLC0415

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from builders import build_graph, eventually
from integration.engine.bench import OPTIONS, TEN_ROWS, TO_NOWHERE, UNINTERRUPTIBLE, Bench, function
from integration.engine.processes import PATIENCE, cancel_within_ten_seconds, is_gone, is_writing
from stoker.core.errors import StartupFailed
from stoker.core.graph import JobGraph, Source, Sql
from stoker.core.options import ByteSize
from stoker.core.results import COLLATERAL
from stoker.core.states import ExecutionState
from stoker.engine.connect.engine import ConnectEngine
from stoker.osproc.orphans import OWNER, kill_orphans, owner_mark

# Several JVMs start here, which takes long on a busy machine.
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(400)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ConnectEngine]:
    """An engine that replaces its server after two tasks."""
    root = tmp_path_factory.mktemp("short-lived")
    options = replace(OPTIONS, recycle_after_tasks=2, heap=ByteSize(600 * 1024**2), warm_runners=1)
    async with ConnectEngine.open(options, root / "work", root / "logs") as opened:
        yield opened


def waits_for(signal_file: Path) -> JobGraph:
    def waiting(spark):
        import time

        spark.range(10).createOrReplaceTempView("kept")
        while not signal_file.exists():
            time.sleep(0.05)
        assert spark.table("kept").count() == 10
        return spark.range(1)

    return build_graph(Source(name="numbers", read=function(waiting, "spark")), TO_NOWHERE)


async def test_an_old_server_is_replaced_and_ends_with_its_last_task(
    bench: Bench, engine: ConnectEngine, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    launched = await bench.launch(waits_for(go_on))
    old = engine.description["server-pid"]
    assert (await bench.run(build_graph(TEN_ROWS, TO_NOWHERE))).failure is None
    await eventually(lambda: engine.description["server-pid"] not in (old, ""), seconds=PATIENCE)
    assert (await bench.run(build_graph(TEN_ROWS, TO_NOWHERE))).failure is None
    assert not launched.running.completion.done()
    assert not is_gone(int(old))
    go_on.touch()
    outcome = await launched.running.outcome()
    assert outcome.state is ExecutionState.FINISHED, outcome.failure
    await eventually(lambda: is_gone(int(old)), seconds=PATIENCE)


async def test_a_server_out_of_memory_is_reported_and_replaced(
    bench: Bench,
) -> None:
    # One array that is larger than the heap: no long struggle before the end.
    query = "SELECT length(repeat(CAST(id AS STRING), 1000000000)) FROM range(1)"
    outcome = await bench.run(
        build_graph(Source(name="numbers", read=Sql(query=query)), TO_NOWHERE)
    )
    assert outcome.state is ExecutionState.FAILED
    assert outcome.failure is not None
    assert outcome.failure.error == "SparkServerDied"
    assert "java.lang.OutOfMemoryError" in outcome.failure.message
    assert "taskmanager.memory.spark-heap" in outcome.failure.message
    assert (await bench.run(build_graph(TEN_ROWS, TO_NOWHERE))).failure is None


async def test_a_lack_of_memory_that_spark_handles_does_not_end_the_server(
    bench: Bench,
) -> None:
    """Java throws the same error, but Spark catches it and fails one query only."""
    query = (
        "SELECT /*+ BROADCAST(b) */ count(*) FROM range(3) a JOIN"
        " (SELECT id, repeat(CAST(id AS STRING), 100) AS t FROM range(20000000)) b ON a.id = b.id"
    )
    large = await bench.launch(
        build_graph(Source(name="numbers", read=Sql(query=query)), TO_NOWHERE)
    )
    outcome = await large.running.outcome()
    assert outcome.failure is not None
    # Either the driver cannot build the table, or a task's result does not fit beside it.
    assert outcome.failure.error == "SparkException" or (
        "Not enough memory to build and broadcast" in outcome.failure.message
    )
    assert not is_gone(large.running.server.pid)


async def test_uninterruptible_tasks_end_with_their_server(
    bench: Bench, engine: ConnectEngine, tmp_path: Path
) -> None:
    """Other tasks on the server fail with the reason, and the next task finds a new server."""
    neighbour = await bench.launch(waits_for(tmp_path / "never"))
    uninterruptible = await bench.launch(build_graph(UNINTERRUPTIBLE, TO_NOWHERE))
    assert uninterruptible.running.server is neighbour.running.server
    await eventually(lambda: is_writing(uninterruptible.running.server.ui), seconds=PATIENCE)
    await cancel_within_ten_seconds(uninterruptible)
    assert is_gone(uninterruptible.running.server.pid)
    outcome = await neighbour.running.outcome()
    assert outcome.failure is not None
    assert outcome.failure.error == "SparkServerDied"
    assert "task.cancellation.timeout" in outcome.failure.message
    assert outcome.failure.labels == {"cause": COLLATERAL}
    assert (await bench.run(build_graph(TEN_ROWS, TO_NOWHERE))).failure is None


async def test_an_absent_spark_master_is_reported_at_once(tmp_path: Path) -> None:
    options = replace(OPTIONS, master="spark://127.0.0.1:1")
    async with ConnectEngine.open(options, tmp_path / "work", tmp_path / "logs") as engine:
        bench = Bench(engine, tmp_path)
        async with asyncio.timeout(60):
            with pytest.raises(
                StartupFailed, match=r"no Spark master is at spark://127\.0\.0\.1:1"
            ):
                await engine.wait_until_ready()
            with pytest.raises(StartupFailed, match=r"start it, or correct spark\.master"):
                await bench.launch(build_graph(TEN_ROWS, TO_NOWHERE))


async def test_only_orphans_of_dead_owners_are_killed() -> None:
    namespace = owner_mark().partition("/")[0]
    sleep = ("sleep", "600")
    orphan = subprocess.Popen(sleep, env={OWNER: f"{namespace}/1/0"}, start_new_session=True)
    owned = subprocess.Popen(sleep, env={OWNER: owner_mark()}, start_new_session=True)
    foreign = subprocess.Popen(sleep, env={OWNER: "pid:[1]/1/0"}, start_new_session=True)
    try:
        assert await asyncio.to_thread(kill_orphans) >= 1
        assert orphan.wait(timeout=10) == -signal.SIGKILL
        assert owned.poll() is None
        assert foreign.poll() is None
    finally:
        for process in (orphan, owned, foreign):
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.wait()

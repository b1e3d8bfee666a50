"""What has run code of one owner runs none of another, on real Spark."""

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import pytest_asyncio
from pyspark.sql.functions import udf

from builders import build_graph, eventually
from integration.engine.bench import OPTIONS, Bench, LaunchedTask, function, python_job
from integration.engine.processes import PATIENCE
from stoker.core.graph import FormatWrite, JobGraph, Sink, Source
from stoker.core.states import ExecutionState
from stoker.engine.connect.engine import ConnectEngine

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ConnectEngine]:
    """An engine of its own: others expect that one owner has all spares."""
    options = replace(OPTIONS, warm_runners=1)
    work, logs = tmp_path_factory.mktemp("engine"), tmp_path_factory.mktemp("logs")
    async with ConnectEngine.open(options, work / "work", logs) as opened:
        yield opened


async def run(bench: Bench, graph: JobGraph, owner: str) -> LaunchedTask:
    """Run a job to its end, when the runners of earlier ones are spares again."""
    pool = bench.engine._pool
    await eventually(
        lambda: bool(pool._spares) and not pool._in_use and all(s.done() for s in pool._spares),
        seconds=PATIENCE,
    )
    launched = await bench.launch(graph, owner=owner)
    outcome = await launched.running.outcome()
    assert outcome.state is ExecutionState.FINISHED, outcome.failure
    return launched


def plain(spark: Any) -> Any:
    return spark.range(10)


async def test_a_harmless_task_is_followed_only_by_tasks_of_its_owner(bench: Bench) -> None:
    used: dict[str, list[tuple[int, str]]] = {"ana": [], "bob": []}
    for owner in ("ana", "ana", "bob", "ana", "bob"):
        launched = await run(bench, python_job(plain), owner)
        runner = launched.running._runner
        used[owner].append((runner.process.pid, runner.session_id))
    for place in (0, 1):
        ana, bob = ({each[place] for each in used[owner]} for owner in ("ana", "bob"))
        assert not ana & bob
    assert used["ana"][0] == used["ana"][1], "the same owner has the same process and session"


def pids_of_workers(spark: Any) -> Any:
    pid = udf(lambda _number: os.getpid(), "long")
    return spark.range(0, 8, 1, 4).select(pid("id").alias("pid"))


async def test_python_workers_of_one_owner_run_no_function_of_another(
    bench: Bench, tmp_path: Path
) -> None:
    """Spark keeps workers, and the processes that fork them, for each session."""
    source = Source(name="numbers", read=function(pids_of_workers, "spark"))
    found: dict[str, set[int]] = {"ana": set(), "bob": set()}
    for number, owner in enumerate(("ana", "bob", "ana", "bob")):
        path = tmp_path / f"out-{number}"
        write = FormatWrite(format="parquet", path=str(path))
        sink = Sink(name=f"out-{number}", input="numbers", write=write)
        await run(bench, build_graph(source, sink), owner)
        found[owner] |= set(pq.read_table(path)["pid"].to_pylist())
    assert found["ana"]
    assert not found["ana"] & found["bob"]

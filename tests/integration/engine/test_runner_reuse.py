"""Runners that run one task after another, on real Spark."""

import asyncio
import itertools
import math
import os
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import pytest_asyncio

from builders import build_graph, eventually
from integration.engine.bench import (
    OPTIONS,
    TEN_ROWS,
    TO_NOWHERE,
    Bench,
    LaunchedTask,
    function,
    python_job,
)
from integration.engine.processes import PATIENCE, cancel_within_ten_seconds, is_gone, read_page
from stoker.core.graph import (
    FormatRead,
    FormatWrite,
    JobGraph,
    Sink,
    Source,
    Sql,
    SqlScript,
    Transform,
)
from stoker.core.states import ExecutionState
from stoker.engine.connect.engine import ConnectEngine
from stoker.engine.connect.launcher import WarmRunner
from stoker.engine.contract import Progressed
from stoker.engine.lease import Lease

pytestmark = pytest.mark.asyncio(loop_scope="session")

LIMITS = {"Max data size", "Max open files"}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ConnectEngine]:
    """An engine with one spare runner, which is reused for task after task."""
    options = replace(OPTIONS, warm_runners=1, replenish_delay=timedelta(hours=1))
    work, logs = tmp_path_factory.mktemp("engine"), tmp_path_factory.mktemp("logs")
    async with ConnectEngine.open(options, work / "work", logs) as opened:
        yield opened


async def wait_for_warm_spare(engine: ConnectEngine) -> None:
    """Wait until the one spare runner is warm and stays so until the next task takes it.

    The pool counts its spares a moment after each change. If a task took the spare just before, the
    pool would miss it and prepare another one, which the task after that might get.
    """
    pool = engine._pool
    while True:
        await eventually(lambda: _has_warm_spare(engine), seconds=PATIENCE)
        spares = list(pool._spares)
        pool._changed.set()
        await eventually(lambda: not pool._changed.is_set(), seconds=PATIENCE)
        if pool._spares == spares and _has_warm_spare(engine):
            # The pool has counted these spares, and does so again only after a change.
            return


def _has_warm_spare(engine: ConnectEngine) -> bool:
    pool = engine._pool
    runners = [spare.result() if spare.done() else None for spare in pool._spares]
    return not pool._in_use and [_is_warm(runner) for runner in runners] == [True]


def _is_warm(runner: object) -> bool:
    # The pool learns a moment after the end of a process that it has ended.
    return isinstance(runner, WarmRunner) and runner.is_warm and not is_gone(_pid(runner))


def _pid(runner: WarmRunner) -> int:
    assert runner.process.pid is not None
    return runner.process.pid


def plain(spark: Any) -> Any:
    return spark.range(10)


def pid_of(launched: LaunchedTask) -> int:
    return _pid(launched.running._runner)


async def process_of(bench: Bench, graph: JobGraph, *, lease_seconds: float = math.inf) -> int:
    """Run a job to its end; returns the id of the process that ran it."""
    await wait_for_warm_spare(bench.engine)
    lease = Lease(until=asyncio.get_running_loop().time() + lease_seconds, margin=4)
    launched = await bench.launch(graph, lease=lease)
    outcome = await launched.running.outcome()
    assert outcome.state is ExecutionState.FINISHED, outcome.failure
    return pid_of(launched)


async def test_tasks_without_code_of_their_own_reuse_one_process(
    bench: Bench,
) -> None:
    script = SqlScript(name="script", statements=("SELECT 1", "SELECT 2"))
    graphs = [
        build_graph(TEN_ROWS, TO_NOWHERE),
        python_job(plain),
        build_graph(script),
        python_job(plain),
    ]
    processes = [await process_of(bench, graph) for graph in graphs]
    assert len(set(processes)) == 1
    assert os.readlink(f"/proc/{processes[0]}/cwd") == "/"


def sessions_of(bench: Bench) -> list[str]:
    return [launched.running.session_id for launched in bench.launched]


async def test_a_session_that_only_read_and_wrote_files_is_kept_for_the_next_task(
    bench: Bench, tmp_path: Path
) -> None:
    """A kept session caches no reads: it sees the files that a path has now."""
    numbers = Source(name="numbers", read=FormatRead(format="parquet", path=str(tmp_path / "in")))
    for count, body in ((3, range_of_three), (5, range_of_five)):
        made = Source(name="numbers", read=function(body, "spark"))
        for source, place in ((made, "in"), (numbers, "out")):
            # Names differ: output of an earlier sink with this name would count as written.
            sink = to_files(tmp_path / place, name=f"{place}-{count}")
            await process_of(bench, build_graph(source, sink))
        assert len(pq.read_table(tmp_path / "out")) == count
    assert len(set(sessions_of(bench))) == 1


def range_of_three(spark: Any) -> Any:
    return spark.range(3)


def range_of_five(spark: Any) -> Any:
    return spark.range(5)


def to_files(path: Path, name: str) -> Sink:
    write = FormatWrite(format="parquet", path=str(path))
    return Sink(name=name, input="numbers", write=write, mode="overwrite")


def from_table(spark: Any) -> Any:
    return spark.table("kept_apart")


async def test_a_session_that_is_not_reused_is_closed_in_spark(tmp_path: Path) -> None:
    """Each process runs only one task here."""
    options = replace(OPTIONS, warm_runners=1, runner_tasks=1)
    async with ConnectEngine.open(options, tmp_path / "work", tmp_path / "logs") as engine:
        bench = Bench(engine, tmp_path)
        counted = []
        for _ in range(4):
            launched = await bench.launch(python_job(plain))
            assert (await launched.running.outcome()).state is ExecutionState.FINISHED
            assert is_gone(pid_of(launched))
            await wait_for_warm_spare(engine)
            counted.append(sessions_at(launched.running.server.ui))
        assert len(set(sessions_of(bench))) == 4
        assert counted[1:] == counted[:1] * 3


def sessions_at(ui: str) -> int:
    page = read_page(f"{ui}/connect/").decode()
    found = re.search(r"(\d+)\s*session\(s\) are online", page)
    assert found is not None
    return int(found[1])


async def test_sql_on_the_jobs_own_frames_leaves_no_view_in_the_session(bench: Bench) -> None:
    for name in ("hidden", "seen"):
        totals = Transform(
            name="totals", inputs=(name,), compute=Sql(query=f"SELECT count(*) AS n FROM {name}")
        )
        rows = Source(name=name, read=TEN_ROWS.read)
        await process_of(
            bench,
            build_graph(rows, totals, Sink(name="out", input="totals", write=TO_NOWHERE.write)),
        )
    assert len(set(sessions_of(bench))) == 1
    asked = build_graph(SqlScript(name="script", statements=("SELECT * FROM hidden",)))
    await wait_for_warm_spare(bench.engine)
    launched = await bench.launch(asked)
    assert launched.running.session_id == sessions_of(bench)[0]
    outcome = await launched.running.outcome()
    assert outcome.failure is not None
    assert "TABLE_OR_VIEW_NOT_FOUND" in outcome.failure.message


async def test_a_session_with_settings_sql_or_tables_is_not_reused(
    bench: Bench, tmp_path: Path
) -> None:
    """A session remembers a table with the files that it had when it was read."""
    made = SqlScript(
        name="script",
        statements=(f"CREATE TABLE kept_apart USING csv LOCATION '{tmp_path}/t' AS SELECT 1 n",),
    )
    setting = build_graph(
        Source(name="numbers", read=function(plain, "spark")),
        TO_NOWHERE,
        configuration={"spark.sql.ansi.enabled": "false"},
    )
    partitions = build_graph(
        Source(name="numbers", read=function(plain, "spark")),
        TO_NOWHERE,
        configuration={"parallelism.default": "3"},
    )
    by_name = build_graph(
        Source(name="numbers", read=Sql(query="SELECT * FROM kept_apart")), TO_NOWHERE
    )
    for graph in (build_graph(made), by_name, setting, partitions, python_job(from_table)):
        await process_of(bench, graph)
        await process_of(bench, python_job(plain))
    sessions = sessions_of(bench)
    for number, (session, following) in enumerate(itertools.pairwise(sessions)):
        assert (session == following) is (number % 2 == 1), (number, sessions)


async def test_progress_of_a_task_is_not_reported_for_the_next_one(bench: Bench) -> None:
    for _ in range(2):
        await process_of(bench, python_job(slow_range))
    assert len(set(sessions_of(bench))) == 1
    for launched in bench.launched:
        assert launched.has_progressed
        reported = [event.progress for event in launched.events if isinstance(event, Progressed)]
        assert {progress.tasks_total for progress in reported} == {TASKS_OF_SLOW_RANGE}


async def test_the_next_task_sees_no_views_settings_or_output_of_the_previous_one(
    bench: Bench,
) -> None:
    """Views and settings end with the session, and printed rows are in one log only."""
    shown = Sink(name="out", input="numbers", write=FormatWrite(format="console"))
    seen = Sql(query="SELECT 'x' AS seen FROM range(1)")
    first = build_graph(
        Source(name="numbers", read=seen), shown, configuration={"spark.sql.ansi.enabled": "false"}
    )
    process = await process_of(bench, first)
    view = SqlScript(name="script", statements=("CREATE TEMPORARY VIEW mine AS SELECT 1",))
    assert await process_of(bench, build_graph(view)) == process
    asked = build_graph(
        Source(
            name="numbers", read=Sql(query="SELECT CAST('no number' AS INT) AS n FROM range(1)")
        ),
        TO_NOWHERE,
    )
    refused = await bench.run(asked)
    assert refused.failure is not None
    assert "CAST_INVALID_INPUT" in refused.failure.message, "Spark's default setting applies"
    missing = await bench.run(
        build_graph(SqlScript(name="script", statements=("SELECT * FROM mine",)))
    )
    assert missing.failure is not None
    assert "TABLE_OR_VIEW_NOT_FOUND" in missing.failure.message
    logs = [(each.directory / "stdout.log").read_text() for each in bench.launched]
    assert ["seen" in log for log in logs] == [True, False, False, False]


def imports(spark: Any) -> Any:
    import colorsys  # noqa: F401, PLC0415

    return spark.range(10)


def queries_spark(spark: Any) -> Any:
    assert spark.range(3).count() == 3
    return spark.range(10)


def fails(spark: Any) -> Any:
    return spark.table("nowhere.to_be_found")


@pytest.mark.parametrize("body", [imports, queries_spark, fails])
async def test_a_process_that_may_keep_state_of_its_task_is_not_reused(
    bench: Bench, body: Callable[..., Any]
) -> None:
    launched = await bench.launch(python_job(body))
    await launched.running.outcome()
    assert is_gone(pid_of(launched))


async def test_the_lease_and_limits_of_a_task_end_with_the_task(
    bench: Bench, engine: ConnectEngine
) -> None:
    process = await process_of(bench, python_job(plain), lease_seconds=24)
    assert limits_of(process) == limits_of(int(engine.description["zygote-pid"]))
    await asyncio.sleep(25)
    assert await process_of(bench, python_job(plain)) == process


def limits_of(pid: int) -> list[str]:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return [line for line in lines if any(line.startswith(name) for name in LIMITS)]


TASKS_OF_SLOW_RANGE = 40


def slow_range(spark: Any) -> Any:
    return spark.range(0, 4 * 10**8, 1, 40)


def endless(spark: Any) -> Any:
    return spark.range(0, 2 * 10**10, 1, 2000)


async def test_a_later_task_of_a_process_is_cancelled_like_its_first(
    bench: Bench, engine: ConnectEngine
) -> None:
    process = await process_of(bench, python_job(plain))
    await wait_for_warm_spare(engine)
    launched = await bench.launch(python_job(endless))
    assert pid_of(launched) == process
    await eventually(lambda: launched.has_progressed, seconds=PATIENCE)
    await cancel_within_ten_seconds(launched)
    assert is_gone(process)


async def test_a_later_task_of_a_process_ends_with_its_own_lease(bench: Bench) -> None:
    process = await process_of(bench, python_job(plain))
    await wait_for_warm_spare(bench.engine)
    now = asyncio.get_running_loop().time()
    launched = await bench.launch(python_job(endless), lease=Lease(until=now + 8, margin=4))
    outcome = await launched.running.outcome()
    assert pid_of(launched) == process
    assert outcome.state is ExecutionState.CANCELED
    assert outcome.failure is not None
    assert "lease" in outcome.failure.message


async def test_a_spare_process_that_dies_is_replaced(bench: Bench) -> None:
    process = await process_of(bench, python_job(plain))
    os.kill(process, 9)
    await eventually(lambda: is_gone(process), seconds=PATIENCE)
    assert await process_of(bench, python_job(plain)) != process

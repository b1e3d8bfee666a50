"""What a task shares with tasks of other jobs, and what it has to itself, on real Spark."""

# Functions that are sent to a runner contain their own imports.
# ruff: noqa: PLC0415

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from builders import build_graph, eventually
from integration.engine.bench import TEN_ROWS, TO_NOWHERE, Bench, LaunchedTask, function, python_job
from integration.engine.processes import PATIENCE, cancel_within_ten_seconds
from stoker.core.graph import FormatRead, FormatWrite, JobGraph, Sink, Source, Sql, Transform
from stoker.core.states import ExecutionState
from stoker.engine.connect.engine import ConnectEngine
from stoker.engine.java import bundled_java_home, find_java
from stoker.engine.runner.janitor import STATE_QUERY, session_mark_in
from stoker.engine.server_config import spark_home

pytestmark = pytest.mark.asyncio(loop_scope="session")

_OWN_CLASS_LOADER = "spark.sql.artifact.isolation.alwaysApplyClassloader"


async def class_loader_setting_of(launched: LaunchedTask) -> str:
    """The class loader setting of a running task's session, as a second client reads it."""
    running = launched.running

    def ask() -> str:
        session: Any = SparkSession.builder.remote(running.server.url(running.session_id)).create()
        try:
            assert session_mark_in(str(session.sql(STATE_QUERY).collect()[0][0])), (
                "the session has its own files in any case"
            )
            return str(session.conf.get(_OWN_CLASS_LOADER))
        finally:
            session.client.close()

    return await asyncio.to_thread(ask)


async def test_the_server_is_started_with_options_for_its_java_version(
    bench: Bench, engine: ConnectEngine, tmp_path: Path
) -> None:
    """Spark ends each session with a process, which Java up to version 21 starts by VFORK."""
    await bench.run(build_graph(TEN_ROWS, TO_NOWHERE))
    java = await find_java(os.environ, tmp_path, bundled_home=bundled_java_home())
    command = _command_of(engine)
    assert ("-Djdk.lang.Process.launchMechanism=VFORK" in command) is (java.version <= 21)


async def test_sparks_own_jars_come_first_on_the_class_path(
    bench: Bench, engine: ConnectEngine
) -> None:
    await bench.run(build_graph(TEN_ROWS, TO_NOWHERE))
    command = _command_of(engine)
    path = command[command.index("-cp") + 1].split(os.pathsep)
    own = {str(jar) for jar in (spark_home() / "jars").glob("spark-*.jar")}
    assert own
    assert set(path[: len(own)]) == own


def _command_of(engine: ConnectEngine) -> list[str]:
    return Path(f"/proc/{engine.description['server-pid']}/cmdline").read_text().split("\0")


# Many short tasks: a long one that only counts does not notice that it was killed.
def endless(spark):
    return spark.range(0, 2 * 10**10, 1, 2000)


def endless_after_a_query(spark):
    assert spark.range(3).count() == 3
    return spark.range(0, 2 * 10**10, 1, 2000)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (python_job(endless), "false"),
        (python_job(endless_after_a_query), "true"),
        (
            build_graph(
                Source(
                    name="numbers", read=Sql(query="SELECT * FROM range(0, 20000000000, 1, 2000)")
                ),
                TO_NOWHERE,
            ),
            "false",
        ),
    ],
    ids=["a plain plan", "a plan after a query", "sql"],
)
async def test_only_tasks_without_code_for_spark_share_a_class_loader(
    bench: Bench, graph: JobGraph, expected: str
) -> None:
    launched = await bench.launch(graph)
    await eventually(lambda: "RUNNING" in launched.states, seconds=PATIENCE)
    assert await class_loader_setting_of(launched) == expected
    await launched.running.cancel()


async def test_small_tasks_leave_no_errors_in_the_log_of_spark(
    bench: Bench, engine_logs: Path
) -> None:
    """Nothing asks Spark for a session that has ended; one task in two used to do so."""

    def logged() -> str:
        return "".join(log.read_text() for log in sorted(engine_logs.glob("spark-server*.log")))

    graph = build_graph(TEN_ROWS, TO_NOWHERE)
    before = len(logged())
    for _ in range(4):
        outcomes = await asyncio.gather(*(bench.run(graph) for _ in range(4)))
        assert {outcome.state for outcome in outcomes} == {ExecutionState.FINISHED}
    # Wait for a call that comes too late.
    await asyncio.sleep(0.5)
    assert "ERROR" not in logged()[before:]


async def test_tasks_with_python_code_for_spark_never_share_workers(
    bench: Bench, tmp_path: Path
) -> None:
    """Only the plan shows that such a task has Python functions."""

    def telling(target: Path) -> JobGraph:
        def rows(spark):
            from pyspark.sql.functions import udf

            @udf("string")
            def whose(_value):
                import os

                seen = getattr(os, "seen_by_a_job", "nobody")
                os.seen_by_a_job = "a job"
                return f"{seen} {os.environ.get('SPARK_JOB_ARTIFACT_UUID', 'default')}"

            return spark.range(1, numPartitions=1).select(whose("id").alias("whose"))

        write = FormatWrite(format="json", path=target.as_uri())
        return build_graph(
            Source(name="numbers", read=function(rows, "spark")),
            Sink(name=target.name, input="numbers", write=write),
        )

    answers = []
    for number in range(2):
        target = tmp_path / f"out-{number}"
        outcome = await bench.run(telling(target))
        assert outcome.state is ExecutionState.FINISHED, outcome.failure
        (file,) = target.glob("*.json")
        answers.append(json.loads(file.read_text())["whose"].split())
    assert [seen for seen, _ in answers] == ["nobody", "nobody"]
    assert len({worker for _, worker in answers} | {"default"}) == 3


async def test_settings_are_kept_when_a_task_moves_to_its_own_session(
    bench: Bench, tmp_path: Path
) -> None:
    answer = tmp_path / "answer"

    def rows(spark):
        answer.write_text(spark.conf.get("spark.sql.session.timeZone"))
        return spark.range(1)

    source = Source(name="numbers", read=function(rows, "spark"))
    configuration = {"spark.sql.session.timeZone": "Asia/Tokyo"}
    outcome = await bench.run(build_graph(source, TO_NOWHERE, configuration=configuration))
    assert outcome.failure is None
    assert answer.read_text() == "Asia/Tokyo"


async def test_views_that_a_function_creates_exist_when_its_result_is_written(bench: Bench) -> None:
    def rows(spark):
        spark.range(5).createOrReplaceTempView("mine")
        return spark.table("mine").filter("id > 1")

    assert (await bench.run(python_job(rows))).failure is None


async def test_sql_finds_the_views_of_its_inputs_in_a_shared_session(
    bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "in.json").write_text('{"a": 1}\n{"a": 2}\n')
    graph = build_graph(
        Source(
            name="numbers",
            read=FormatRead(format="json", path=(tmp_path / "in.json").as_uri()),
        ),
        Transform(name="large", inputs=("numbers",), compute=Sql(query="SELECT a FROM numbers")),
        Sink(
            name="out",
            input="large",
            write=FormatWrite(format="json", path=(tmp_path / "out").as_uri()),
        ),
    )
    assert (await bench.run(graph)).failure is None
    lines = [line for file in (tmp_path / "out").glob("*.json") for line in file.open()]
    assert sorted(lines) == ['{"a":1}\n', '{"a":2}\n']


async def test_a_task_in_its_own_session_is_cancelled_with_all_its_work(
    bench: Bench, engine: ConnectEngine, tmp_path: Path
) -> None:
    """The task is still registered under the id of the session that it left."""
    begun = tmp_path / "begun"

    def rows(spark):
        from pyspark.sql.functions import udf

        @udf("long")
        def asleep(value):
            import time

            begun.touch()
            time.sleep(3600)
            return value

        return spark.range(2).select(asleep("id").alias("id"))

    launched = await bench.launch(python_job(rows))
    await eventually(begun.exists, seconds=PATIENCE)
    assert await class_loader_setting_of(launched) == "true"
    await cancel_within_ten_seconds(launched)

"""Tasks on one Spark server share no modules, settings or views, and do not starve each other."""

# Functions that are sent to a runner contain their own imports.
# ruff: noqa: PLC0415

import asyncio
import json
from pathlib import Path

import pytest

from builders import build_graph, eventually
from integration.engine.bench import TO_NOWHERE, Bench, LaunchedTask, function
from integration.engine.java_versions import jar_of
from integration.engine.processes import PATIENCE, cancel_within_ten_seconds
from stoker.core.graph import Artifact, ArtifactKind, JobGraph, Source, Sql, SqlScript
from stoker.core.states import ExecutionState
from stoker.engine.connect.engine import ConnectEngine
from stoker.engine.python_workers import python_workers_at

pytestmark = pytest.mark.asyncio(loop_scope="session")


def tells_its_version(answer: Path, meeting: Path) -> JobGraph:
    def versions(spark):
        import time

        import treetops
        from pyspark.sql.functions import udf

        @udf("string")
        def in_a_worker(value):

            import treetops

            # Wait until both jobs are in their workers at the same time.
            (meeting / treetops.VERSION).touch()
            deadline = time.monotonic() + 60
            while len(list(meeting.iterdir())) < 2 and time.monotonic() < deadline:
                time.sleep(0.02)
            return treetops.VERSION

        seen = spark.range(1).select(in_a_worker("id").alias("version")).collect()
        answer.write_text(f'["{treetops.VERSION}", "{seen[0].version}"]')
        return spark.range(1)

    artifact = Artifact(name="treetops.py", kind=ArtifactKind.PYTHON, sha256="0" * 64, size=1)
    source = Source(name="numbers", read=function(versions, "spark"))
    return build_graph(source, TO_NOWHERE, artifacts=(artifact,))


async def test_two_tasks_with_two_versions_of_one_module_each_see_their_own(
    bench: Bench, tmp_path: Path
) -> None:
    meeting = tmp_path / "meeting"
    meeting.mkdir()

    async def answered(version: str) -> list[str]:
        module = tmp_path / version / "treetops.py"
        module.parent.mkdir()
        module.write_text(f"VERSION = '{version}'\n")
        answer = tmp_path / f"answer-{version}"
        graph = tells_its_version(answer, meeting)
        outcome = await bench.run(graph, artifacts={"treetops.py": module})
        assert outcome.state is ExecutionState.FINISHED, outcome.failure
        return list(json.loads(answer.read_text()))

    answers = await asyncio.gather(answered("1.0"), answered("2.0"))
    assert answers == [["1.0", "1.0"], ["2.0", "2.0"]]


def tells_its_java_version(jar: Path, how: str, answer: Path, go_on: Path) -> JobGraph:
    def versions(spark):
        import time

        if how == "statement":
            spark.sql(f"ADD JAR {jar}")
        else:
            spark.addArtifacts(str(jar))
        spark.udf.registerJavaFunction("java_version", "Version", "string")
        frame = spark.range(1).selectExpr("java_version(cast(id AS string)) AS version")
        first = frame.collect()[0].version
        answer.with_suffix(".first").touch()
        while not go_on.exists():
            time.sleep(0.05)
        answer.write_text(f'["{first}", "{frame.collect()[0].version}"]')
        return frame

    return build_graph(Source(name="numbers", read=function(versions, "spark")), TO_NOWHERE)


@pytest.mark.parametrize("how", ["statement", "artifact"])
async def test_two_tasks_with_two_versions_of_one_java_class_each_see_their_own(
    bench: Bench, tmp_path: Path, how: str
) -> None:
    """A task without code of its own runs beside the first one, in a shared session."""
    go_on = tmp_path / "go-on"
    answers = [tmp_path / f"answer-{version}" for version in (1, 2)]
    first, second = (
        tells_its_java_version(jar_of(version, tmp_path), how, answer, go_on)
        for version, answer in zip((1, 2), answers, strict=True)
    )
    running = (await bench.launch(first)).running
    ended, begun = asyncio.ensure_future(running.outcome()), answers[0].with_suffix(".first")
    await eventually(lambda: begun.exists() or ended.done(), seconds=PATIENCE)
    plain = Source(name="numbers", read=Sql(query="SELECT sum(id) AS total FROM range(1000)"))
    assert (await bench.run(build_graph(plain, TO_NOWHERE))).failure is None
    go_on.touch()
    assert (await ended).failure is None
    assert (await bench.run(second)).failure is None
    seen = [json.loads(answer.read_text()) for answer in answers]
    assert seen == [["version 1"] * 2, ["version 2"] * 2]


async def test_the_next_task_sees_no_settings_and_views_of_the_previous_one(bench: Bench) -> None:
    first = SqlScript(
        name="script", statements=("CREATE TEMPORARY VIEW mine AS SELECT 1", "SELECT * FROM mine")
    )
    configuration = {"spark.sql.shuffle.partitions": "7"}
    assert (await bench.run(build_graph(first, configuration=configuration))).failure is None

    def default_settings(spark):
        assert spark.conf.get("spark.sql.shuffle.partitions") != "7"
        return spark.range(1)

    source = Source(name="numbers", read=function(default_settings, "spark"))
    assert (await bench.run(build_graph(source, TO_NOWHERE))).failure is None
    second = SqlScript(name="script", statements=("SELECT * FROM mine",))
    failure = (await bench.run(build_graph(second))).failure
    assert failure is not None
    assert "TABLE_OR_VIEW_NOT_FOUND" in failure.message


def huge(begun: Path) -> JobGraph:
    def many_slow_tasks(spark):
        from pyspark.sql.functions import udf

        @udf("long")
        def slowly(value):
            import time

            begun.touch()
            time.sleep(0.5)
            return value

        return spark.range(10_000, numPartitions=10_000).select(slowly("id").alias("id"))

    return build_graph(Source(name="numbers", read=function(many_slow_tasks, "spark")), TO_NOWHERE)


async def test_a_small_task_does_not_wait_for_a_huge_one(bench: Bench, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    large: LaunchedTask = await bench.launch(huge(begun))
    await eventually(begun.exists, seconds=PATIENCE)
    small = Source(name="numbers", read=Sql(query="SELECT sum(id) FROM range(1000)"))
    async with asyncio.timeout(PATIENCE):
        outcome = await bench.run(build_graph(small, TO_NOWHERE))
    assert outcome.state is ExecutionState.FINISHED, outcome.failure
    assert not large.running.completion.done()
    await cancel_within_ten_seconds(large)


async def test_python_workers_of_spark_do_not_pile_up(bench: Bench, engine: ConnectEngine) -> None:
    def with_udf(spark):
        from pyspark.sql.functions import udf

        @udf("long")
        def same(value):
            return value

        return spark.range(1).select(same("id").alias("id"))

    server = int(engine.description["server-pid"])
    before = set(python_workers_at(server))
    source = Source(name="numbers", read=function(with_udf, "spark"))
    for _ in range(2):
        assert (await bench.run(build_graph(source, TO_NOWHERE))).failure is None
    assert set(python_workers_at(server)) <= before


async def test_a_dedicated_session_has_the_isolation_of_an_ordinary_spark_session(
    bench: Bench,
) -> None:
    """With this isolation, jars that a statement adds are visible to this session only."""

    def telling(spark):
        isolation = "spark.sql.artifact.isolation"
        assert spark.conf.get(f"{isolation}.enabled") == "true"
        assert spark.conf.get(f"{isolation}.alwaysApplyClassloader") == "true"
        assert spark.conf.get("spark.scheduler.pool").startswith("stoker-")
        return spark.range(1)

    source = Source(name="numbers", read=function(telling, "spark"))
    assert (await bench.run(build_graph(source, TO_NOWHERE))).failure is None

"""Batch regions on a real Spark: reading, computing, writing, and failures."""

# Functions that are sent to a runner contain their own imports.
# ruff: noqa: PLC0415

import asyncio
import json
import zipfile
from pathlib import Path

import pytest
from pyspark.sql.functions import udf
from pyspark.sql.types import LongType

from builders import build_graph
from integration.engine.bench import TEN_ROWS, TO_NOWHERE, Bench, function
from stoker.core.graph import (
    Artifact,
    ArtifactKind,
    CallerDirectory,
    Environment,
    FormatRead,
    FormatWrite,
    Sink,
    Source,
    Sql,
    SqlScript,
    Transform,
)
from stoker.core.headlines import headline_of
from stoker.core.spark_paths import describe_directory
from stoker.core.states import ExecutionState

pytestmark = pytest.mark.asyncio(loop_scope="session")


def written_json(path: Path) -> list[dict[str, object]]:
    lines = [line for part in path.glob("part-*") for line in part.read_text().splitlines()]
    return sorted((json.loads(line) for line in lines), key=str)


def json_sink(name: str, upstream: str, path: Path) -> Sink:
    return Sink(name=name, input=upstream, write=FormatWrite(format="json", path=str(path)))


async def test_a_job_converts_files_to_another_format(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("1,ash\n2,oak\n")
    graph = build_graph(
        Source(
            name="trees",
            read=FormatRead(format="csv", path=str(tmp_path / "in.csv"), schema="id INT, n STRING"),
        ),
        json_sink("out", "trees", tmp_path / "out"),
    )
    launched = await bench.launch(graph)
    outcome = await launched.running.outcome()
    assert outcome.failure is None
    assert outcome.state is ExecutionState.FINISHED
    assert written_json(tmp_path / "out") == [{"id": 1, "n": "ash"}, {"id": 2, "n": "oak"}]
    assert launched.states == ["INITIALIZING", "RUNNING"]
    assert outcome.progress.tasks_done == outcome.progress.tasks_total


async def test_all_spark_tasks_are_counted_as_done(bench: Bench) -> None:
    """Spark reports its tasks twice a second, so a shorter job may get no report at all."""
    slow = "SELECT id, reflect('java.lang.Thread', 'sleep', 300L) FROM numbers"
    graph = build_graph(
        TEN_ROWS,
        Transform(name="slow", inputs=("numbers",), compute=Sql(query=slow)),
        json_sink("out", "slow", bench.root / "out"),
    )
    launched = await bench.launch(graph)
    outcome = await launched.running.outcome()
    assert outcome.failure is None
    assert outcome.progress.tasks_done == outcome.progress.tasks_total > 0


async def test_sql_reads_its_inputs_by_name_and_parameters_by_marker(
    bench: Bench, tmp_path: Path
) -> None:
    query = "SELECT sum(id) AS total FROM numbers WHERE id < CAST(:limit AS INT)"
    graph = build_graph(
        TEN_ROWS,
        Transform(name="total", inputs=("numbers",), compute=Sql(query=query)),
        json_sink("out", "total", tmp_path / "out"),
        parameters={"limit": "4", "unused": "x"},
    )
    outcome = await bench.run(graph)
    assert outcome.failure is None
    assert written_json(tmp_path / "out") == [{"total": 6}]


async def test_python_functions_get_session_parameters_and_inputs(
    bench: Bench, tmp_path: Path
) -> None:
    @udf(LongType())
    def doubled(value: int) -> int:
        return value * 2

    def numbers(spark, params):
        from pyspark.sql import SparkSession

        assert SparkSession.builder.getOrCreate() is spark
        return spark.range(int(params["count"]))

    def twice(numbers):
        print("seen by the author")
        return numbers.select(doubled("id").alias("id"))

    def write(df):
        df.write.json(target)

    target = str(tmp_path / "out")
    graph = build_graph(
        Source(name="numbers", read=function(numbers, "spark", "params")),
        Transform(name="twice", inputs=("numbers",), compute=function(twice, "numbers")),
        Sink(name="out", input="twice", write=function(write, "twice")),
        parameters={"count": "3"},
    )
    launched = await bench.launch(graph)
    outcome = await launched.running.outcome()
    assert outcome.failure is None, outcome.failure
    assert written_json(tmp_path / "out") == [{"id": 0}, {"id": 2}, {"id": 4}]
    assert (launched.directory / "stdout.log").read_text() == "seen by the author\n"


async def test_a_materialized_vertex_is_computed_once_and_read_back(
    bench: Bench, tmp_path: Path
) -> None:
    query = "SELECT id + 1 AS id FROM numbers"
    graph = build_graph(
        TEN_ROWS,
        Transform(name="kept", inputs=("numbers",), compute=Sql(query=query), materialized=True),
        Transform(name="sum", inputs=("kept",), compute=Sql(query="SELECT sum(id) s FROM kept")),
        json_sink("out", "sum", tmp_path / "out"),
    )
    assert (await bench.run(graph, "kept")).failure is None
    first = sorted((tmp_path / "materialized" / "kept").iterdir())
    assert (await bench.run(graph, "kept")).failure is None
    assert sorted((tmp_path / "materialized" / "kept").iterdir()) == first
    assert [path.name for path in (tmp_path / "materialized").iterdir()] == ["kept"]
    assert (await bench.run(graph, "out")).failure is None
    assert written_json(tmp_path / "out") == [{"s": 55}]


async def test_a_script_runs_in_order_and_names_the_statement_that_fails(bench: Bench) -> None:
    script = SqlScript(
        name="script",
        statements=("CREATE TEMPORARY VIEW v AS SELECT 1 AS a", "SELECT nothing FROM v"),
    )
    outcome = await bench.run(build_graph(script))
    assert outcome.state is ExecutionState.FAILED
    assert outcome.failure is not None
    assert outcome.failure.error == "AnalysisException"
    assert outcome.failure.place == "statement 2 of 2 in script, line 1 column 8"
    assert headline_of(outcome.failure).endswith("\n    SELECT nothing FROM v\n           ^^^^^^^")
    assert not outcome.failure.retriable


async def test_a_stack_trace_starts_with_the_authors_line(bench: Bench) -> None:
    def broken(numbers):
        raise LookupError("no such tree")

    graph = build_graph(
        TEN_ROWS,
        Transform(name="broken", inputs=("numbers",), compute=function(broken, "numbers")),
        Sink(name="out", input="broken", write=FormatWrite(format="noop")),
    )
    launched = await bench.launch(graph)
    failure = (await launched.running.outcome()).failure
    assert failure is not None
    assert (failure.error, failure.message) == ("LookupError", "no such tree")
    lines = failure.stack_trace.splitlines()
    assert "test_batch.py" in lines[1]
    assert "in broken" in lines[1]
    assert "stoker/engine" not in failure.stack_trace
    assert "no such tree" in (launched.directory / "stderr.log").read_text()


async def test_a_failure_inside_a_worker_shows_the_authors_line(bench: Bench) -> None:
    @udf(LongType())
    def picky(value: int) -> int:
        raise ValueError(f"cannot take {value}")

    def picked(numbers):
        return numbers.select(picky("id"))

    graph = build_graph(
        TEN_ROWS,
        Transform(name="picked", inputs=("numbers",), compute=function(picked, "numbers")),
        Sink(name="out", input="picked", write=FormatWrite(format="noop")),
    )
    failure = (await bench.run(graph)).failure
    assert failure is not None
    assert failure.error == "PythonException"
    assert "in picky" in failure.stack_trace.splitlines()[1]
    assert "cannot take" in failure.message


async def test_a_function_that_returns_no_dataframe_is_refused_with_an_explanation(
    bench: Bench,
) -> None:
    def forgetful(numbers):
        numbers.select("id")

    graph = build_graph(
        TEN_ROWS,
        Transform(name="t", inputs=("numbers",), compute=function(forgetful, "numbers")),
        Sink(name="out", input="t", write=FormatWrite(format="noop")),
    )
    failure = (await bench.run(graph)).failure
    assert failure is not None
    assert "forgetful of t returned None" in failure.message
    assert not failure.retriable


async def test_a_stream_in_a_batch_region_is_refused_with_an_explanation(bench: Bench) -> None:
    def endless(spark):
        return spark.readStream.format("rate").load()

    graph = build_graph(Source(name="numbers", read=function(endless, "spark")), TO_NOWHERE)
    failure = (await bench.run(graph)).failure
    assert failure is not None
    assert failure.error == "StreamingMismatch"
    assert "streaming=True" in failure.message
    assert not failure.retriable


@pytest.mark.parametrize("key", ["spark.executor.memory", "spark.sql.warehouse.dir"])
async def test_a_setting_that_a_job_cannot_change_is_named(bench: Bench, key: str) -> None:
    failure = (
        await bench.run(build_graph(TEN_ROWS, TO_NOWHERE, configuration={key: "1g"}))
    ).failure
    assert failure is not None
    assert failure.error == "StaticConfiguration"
    assert key in failure.message
    assert not failure.retriable


async def test_functions_pickled_with_other_versions_are_refused(bench: Bench) -> None:
    def numbers(spark):
        return spark.range(1)

    graph = build_graph(
        Source(name="numbers", read=function(numbers, "spark")),
        TO_NOWHERE,
        environment=Environment(python="2.7", libraries={"pandas": "0.9", "no-such-thing": "1"}),
    )
    failure = (await bench.run(graph)).failure
    assert failure is not None
    assert failure.error == "UserCodeMismatch"
    for fact in ("Python 2.7 there", "pandas 0.9 there", "no-such-thing 1 there, not installed"):
        assert fact in failure.message
    assert not failure.retriable


async def test_a_function_that_cannot_be_loaded_is_named_in_the_error(bench: Bench) -> None:
    broken = function(len, "spark")
    damaged = type(broken)(name="total", payload=b"not a pickle", parameters=("spark",))
    failure = (
        await bench.run(build_graph(Source(name="numbers", read=damaged), TO_NOWHERE))
    ).failure
    assert failure is not None
    assert "function total of numbers cannot be loaded" in failure.message
    assert not failure.retriable


async def test_python_files_and_wheels_reach_runner_and_workers(
    bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "by-content").write_text("def grown(x):\n    return x + 100\n")
    with zipfile.ZipFile(tmp_path / "wheel-by-content", "w") as wheel:
        wheel.writestr("barked.py", "LOUD = 1000\n")

    def numbers(spark):
        from barked import LOUD
        from grown import grown
        from pyspark.sql.functions import udf

        @udf("long")
        def in_worker(value):
            import barked
            import grown

            return grown.grown(value) + barked.LOUD

        assert grown(LOUD) == 1100
        return spark.range(1).select(in_worker("id").alias("id"))

    artifacts = {"grown.py": "by-content", "barked-1-py3-none-any.whl": "wheel-by-content"}
    kinds = (ArtifactKind.PYTHON, ArtifactKind.WHEEL)
    graph = build_graph(
        Source(name="numbers", read=function(numbers, "spark")),
        json_sink("out", "numbers", tmp_path / "out"),
        artifacts=tuple(
            Artifact(name=name, kind=kind, sha256="", size=0)
            for name, kind in zip(artifacts, kinds, strict=True)
        ),
    )
    files = {name: tmp_path / file for name, file in artifacts.items()}
    outcome = await bench.run(graph, artifacts=files)
    assert outcome.failure is None, outcome.failure
    assert written_json(tmp_path / "out") == [{"id": 1100}]


async def test_two_tasks_at_once_do_not_see_each_others_views(bench: Bench, tmp_path: Path) -> None:
    def summed(factor: int):
        source = Source(name="numbers", read=Sql(query=f"SELECT id * {factor} id FROM range(10)"))
        total = Transform(
            name="total", inputs=("numbers",), compute=Sql(query="SELECT sum(id) s FROM numbers")
        )
        # Both tasks use the same folder of results here, so their sinks need different names.
        return build_graph(
            source, total, json_sink(f"out-{factor}", "total", tmp_path / str(factor))
        )

    outcomes = await asyncio.gather(*(bench.run(summed(factor)) for factor in (1, 2)))
    assert [outcome.failure for outcome in outcomes] == [None, None]
    assert written_json(tmp_path / "1") == [{"s": 45}]
    assert written_json(tmp_path / "2") == [{"s": 90}]


ELSEWHERE = CallerDirectory(path="/home/me/project", machine="another", inode=1)


@pytest.mark.parametrize("caller", [ELSEWHERE, None], ids=["elsewhere", "unknown"])
@pytest.mark.parametrize("how", ["sink", "function", "statement"])
async def test_a_relative_path_is_refused_if_the_callers_directory_is_not_here(
    bench: Bench, caller: CallerDirectory | None, how: str
) -> None:
    """Spark would write it into its own directory, where nobody looks for it."""

    def write(df):
        df.write.json("by-mistake")

    vertices = {
        "sink": (TEN_ROWS, json_sink("out", "numbers", Path("by-mistake"))),
        "function": (
            TEN_ROWS,
            Sink(name="out", input="numbers", write=function(write, "numbers")),
        ),
        "statement": (
            SqlScript(
                name="script",
                statements=("INSERT OVERWRITE DIRECTORY 'by-mistake' USING json SELECT 1",),
            ),
        ),
    }
    outcome = await bench.run(build_graph(*vertices[how], caller=caller))
    assert outcome.failure is not None
    assert outcome.failure.error == "RelativePath"
    assert not outcome.failure.retriable
    assert "the path by-mistake is relative" in outcome.failure.message
    assert "name an absolute path or a URL" in outcome.failure.message


async def test_a_relative_path_that_nobody_saw_writes_nothing(bench: Bench, tmp_path: Path) -> None:
    """The processes of Spark work in a directory in which nothing can be created."""
    insert = "INSERT OVERWRITE DIRECTORY \\'by-mistake\\' USING json SELECT 1"
    script = SqlScript(name="script", statements=(f"EXECUTE IMMEDIATE '{insert}'",))
    outcome = await bench.run(build_graph(script, caller=describe_directory(tmp_path)))
    assert outcome.failure is not None
    assert (outcome.failure.error, outcome.failure.retriable) == ("RelativePath", False)
    assert headline_of(outcome.failure).startswith(
        "RelativePath: Spark was given the relative path by-mistake, and does not know what"
    )
    assert not (tmp_path / "by-mistake").exists()

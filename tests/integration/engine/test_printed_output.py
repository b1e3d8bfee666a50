"""What user code prints is in the logs of its own attempt, wherever the code runs."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from builders import build_graph, eventually
from integration.engine.bench import Bench, function, python_job
from integration.engine.processes import PATIENCE, runner_of
from stoker.core.graph import FormatRead, Sink, Source
from stoker.core.states import ExecutionState
from stoker.engine.connect.engine import ConnectEngine

pytestmark = pytest.mark.asyncio(loop_scope="session")


def log(directory: Path, stream: str = "stdout") -> str:
    path = directory / f"{stream}.log"
    return path.read_text() if path.exists() else ""


def printing_job(word: str):
    """A job that prints in its own process and in a function on Spark's workers."""

    def numbers(spark):
        import sys  # noqa: PLC0415

        from pyspark.sql.functions import udf  # noqa: PLC0415

        def double(number):
            print(f"{word} on a worker: {number}")
            print(f"{word} went wrong", file=sys.stderr)
            return number * 2

        print(f"{word} in the pipeline")
        spark.sql(f"SELECT '{word}' AS shown").show()
        return spark.range(3).select(udf(double, "long")("id").alias("id"))

    return python_job(numbers)


async def test_two_jobs_at_the_same_time_print_into_their_own_logs_only(
    bench: Bench, engine_logs: Path
) -> None:
    launched = await asyncio.gather(*(bench.launch(printing_job(word)) for word in ("ash", "oak")))
    for one in launched:
        outcome = await one.running.outcome()
        assert outcome.failure is None, outcome.failure
    for one, word, other in zip(launched, ("ash", "oak"), ("oak", "ash"), strict=True):
        printed = log(one.directory).splitlines()
        assert f"{word} in the pipeline" in printed
        assert f"|  {word}|" in printed, "df.show()"
        assert {f"{word} on a worker: {number}" for number in range(3)} <= set(printed)
        assert f"{word} went wrong" in log(one.directory, "stderr").splitlines()
        assert other not in log(one.directory) + log(one.directory, "stderr")
    for path in engine_logs.glob("*.log"):
        assert "on a worker" not in path.read_text(errors="replace"), path


async def test_a_worker_that_fails_has_said_its_last_words(bench: Bench) -> None:
    def numbers(spark):
        from pyspark.sql.functions import udf  # noqa: PLC0415

        def fail(number):
            print("the last words", end="")
            raise ValueError(number)

        return spark.range(1).select(udf(fail, "long")("id").alias("id"))

    launched = await bench.launch(python_job(numbers))
    outcome = await launched.running.outcome()
    assert outcome.state is ExecutionState.FAILED
    assert "the last words" in log(launched.directory)


async def test_output_is_there_while_the_job_runs(bench: Bench) -> None:
    def numbers(spark):
        import time  # noqa: PLC0415

        print("before a long time")
        time.sleep(600)

    launched = await bench.launch(python_job(numbers))
    await eventually(lambda: "before a long time" in log(launched.directory), seconds=PATIENCE)
    await launched.running.cancel()


async def test_a_streams_functions_print_into_its_log_also_after_a_takeover(
    bench: Bench, engine: ConnectEngine
) -> None:
    def show(df, batch_id):
        print("batch", batch_id)
        df.selectExpr("'shown' AS word").show(1)

    rate = FormatRead(format="rate", options={"rowsPerSecond": "10"})
    sink = Sink(
        name="out",
        input="rate",
        write=function(show, "df", "batch_id"),
        trigger="200 milliseconds",
    )
    graph = build_graph(Source(name="rate", read=rate, streaming=True), sink)
    launched = await bench.launch(graph)
    await eventually(lambda: log(launched.directory).count("|shown|") > 2, seconds=PATIENCE)
    assert "Started batch" not in log(launched.directory), "Spark's own messages stay with Spark"
    os.kill(runner_of(engine, launched), signal.SIGKILL)
    seen = log(launched.directory).count("batch ")
    await eventually(lambda: log(launched.directory).count("batch ") > seen + 3, seconds=PATIENCE)
    await launched.running.cancel()
    batches = [
        int(line.split()[1])
        for line in log(launched.directory).splitlines()
        if line.startswith("batch ")
    ]
    assert batches == list(range(len(batches))), "nothing is lost while no runner reads"

"""A function that takes too much memory in Spark's Python workers ends its own task only."""

# Functions that are sent to a runner contain their own imports.
# ruff: noqa: PLC0415

import asyncio

import pytest

from builders import build_graph
from integration.engine.bench import TO_NOWHERE, Bench, function, python_job
from stoker.core.graph import ResourceProfile, Source, Transform
from stoker.core.states import ExecutionState

pytestmark = pytest.mark.asyncio(loop_scope="session")

SMALL = ResourceProfile(memory_bytes=300 * 1024**2)


def neighbour(spark):
    """Uses workers of the same server for about as long as the greedy one lives."""
    from pyspark.sql.functions import udf

    @udf("long")
    def slowly(value):
        import time

        time.sleep(0.5)
        return value

    return spark.range(8, numPartitions=1).select(slowly("id").alias("id"))


def rows(spark):
    return spark.range(2, numPartitions=2)


def greedy(rows):
    from pyspark.sql.functions import udf

    @udf("long")
    def hoard(value):
        import time

        held = []
        while True:
            held.append(b"x" * (16 * 1024 * 1024))
            time.sleep(0.01)

    return rows.select(hoard("id").alias("id"))


async def test_greedy_workers_are_killed_and_the_neighbours_at_the_server_go_on(
    bench: Bench,
) -> None:
    graph = build_graph(
        Source(name="rows", read=function(rows, "spark")),
        Transform(name="numbers", inputs=("rows",), compute=function(greedy, "rows")),
        TO_NOWHERE,
        profile=SMALL,
    )
    bad, good = await asyncio.gather(bench.run(graph), bench.run(python_job(neighbour)))
    assert good.state is ExecutionState.FINISHED, good.failure
    assert bad.failure is not None
    assert bad.failure.error == "OutOfMemory", bad.failure
    assert "the task may take 300 MB" in bad.failure.message
    assert "runner.memory" in bad.failure.message
    assert "transform 'numbers'" in bad.failure.place
    assert "test_worker_memory.py line" in bad.failure.place


async def test_workers_within_the_limit_are_left_alone(bench: Bench) -> None:
    outcome = await bench.run(python_job(neighbour, profile=SMALL))
    assert outcome.state is ExecutionState.FINISHED, outcome.failure

"""A runner dies at each failpoint of writing; after the next attempt every row is there once."""

# Functions that are sent to a runner contain their own imports.
# ruff: noqa: PLC0415

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import dataset, parquet

from builders import build_graph
from integration.engine.bench import Bench, function
from stoker.core.failpoints import RUNNER_FAILPOINTS
from stoker.core.graph import FormatWrite, JobGraph, Sink, Source, Sql, Transform
from stoker.core.states import ExecutionState

pytestmark = pytest.mark.asyncio(loop_scope="session")

LONG = os.environ.get("TEST_ENGINE") == "long"
PUBLISHING = sorted(name for name in RUNNER_FAILPOINTS if name.startswith("publishing."))
MATERIALIZED = sorted(name for name in RUNNER_FAILPOINTS if name.startswith("materialized."))
AFTER_DECISION = ("after-record", "move", "removing")
SAMPLE = ("publishing.before-record", "publishing.after-record", "publishing.after-a-move")
FAILPOINTS = [name for name in PUBLISHING if "replaced" not in name] if LONG else SAMPLE
"""All failpoints with TEST_ENGINE=long; unit tests crash at each of them without Spark."""


def source_that_dies_once(marker: Path, runs: Path) -> Callable[..., Any]:
    """A source of six rows that counts its calls and arms the failpoint in the marker, once."""
    names = str(marker), str(runs)

    def numbers(spark):
        from pathlib import Path

        from stoker.core.failpoints import arm_from_environment

        marker, runs = map(Path, names)
        with runs.open("a") as file:
            file.write("run\n")
        if marker.exists():
            arm_from_environment(marker.read_text())
            marker.unlink()
        return spark.sql("SELECT id, id % 2 AS p FROM range(6)")

    return numbers


class Scenario:
    def __init__(self, bench: Bench, root: Path, name: str) -> None:
        self.bench = bench
        self.marker = root / f"{name}.marker"
        self.runs = root / f"{name}.runs"
        self.target = root / f"{name} out"
        self.name = name

    def graph(self, mode: str, materialized: bool = False, **options: str) -> JobGraph:
        write = FormatWrite(
            format="parquet", path=str(self.target), partition_by=("p",), options=options
        )
        kept = f"kept_{self.name}"
        return build_graph(
            Source(
                name=kept,
                read=function(source_that_dies_once(self.marker, self.runs), "spark"),
                materialized=materialized,
            ),
            Transform(name="all", inputs=(kept,), compute=Sql(query=f"SELECT * FROM `{kept}`")),
            Sink(name=f"sink-{self.name}", input="all", write=write, mode=mode),
        )

    def write_old_file(self, partition: int) -> None:
        folder = self.target / f"p={partition}"
        folder.mkdir(parents=True)
        parquet.write_table(pa.table({"id": [100 + partition]}), folder / "part-old.parquet")

    def rows(self) -> list[int]:
        return sorted(dataset.dataset(self.target, format="parquet").to_table()["id"].to_pylist())

    def leftovers(self) -> list[str]:
        places = (self.target, self.target.parent)
        return [path.name for place in places for path in place.glob(".stoker-*")]

    async def die_and_retry(self, graph: JobGraph, at: str, region: str) -> None:
        self.marker.write_text(at)
        died = await self.bench.run(graph, region)
        assert died.failure is not None, at
        assert died.failure.error == "RunnerDied", (at, died.failure)
        again = await self.bench.run(graph, region)
        assert again.state is ExecutionState.FINISHED, (at, again.failure)

    def runs_of_the_source(self) -> int:
        return len(self.runs.read_text().splitlines())


@pytest.mark.parametrize("at", FAILPOINTS)
async def test_an_append_writes_every_row_once_wherever_its_runner_dies(
    bench: Bench, tmp_path: Path, at: str
) -> None:
    scenario = Scenario(bench, tmp_path, "append")
    scenario.write_old_file(1)
    await scenario.die_and_retry(scenario.graph("append"), at, "sink-append")
    assert scenario.rows() == [0, 1, 2, 3, 4, 5, 101]
    assert scenario.leftovers() == []
    assert scenario.runs_of_the_source() == (1 if any(word in at for word in AFTER_DECISION) else 2)


@pytest.mark.parametrize(("how", "rows"), [("static", []), ("dynamic", [109])])
async def test_the_next_attempt_finishes_an_overwrite_that_died_while_removing_old_files(
    bench: Bench, tmp_path: Path, how: str, rows: list[int]
) -> None:
    scenario = Scenario(bench, tmp_path, how)
    scenario.write_old_file(1)
    scenario.write_old_file(9)
    graph = scenario.graph("overwrite", partitionOverwriteMode=how)
    at = "publishing.before-removing-replaced"
    await scenario.die_and_retry(graph, at, f"sink-{how}")
    assert scenario.rows() == [0, 1, 2, 3, 4, 5, *rows]
    assert scenario.runs_of_the_source() == 1


async def test_an_existing_target_is_refused_with_an_explanation_and_not_retried(
    bench: Bench, tmp_path: Path
) -> None:
    scenario = Scenario(bench, tmp_path, "exists")
    scenario.write_old_file(1)
    failure = (await bench.run(scenario.graph("errorifexists"))).failure
    assert failure is not None
    assert "which already exists" in failure.message
    assert not failure.retriable
    assert (await bench.run(scenario.graph("ignore"))).failure is None
    assert scenario.rows() == [101]


async def test_a_materialized_vertex_survives_its_runner_and_is_computed_again_when_damaged(
    bench: Bench, tmp_path: Path
) -> None:
    bench.root = tmp_path / "a place"
    bench.root.mkdir()
    for number, at in enumerate(MATERIALIZED):
        scenario = Scenario(bench, tmp_path, f"m{number}")
        graph = scenario.graph("errorifexists", materialized=True)
        await scenario.die_and_retry(graph, at, f"kept_m{number}")
        assert scenario.runs_of_the_source() == (1 if at == "materialized.after-manifest" else 2)

    [data, *_] = (bench.root / "materialized" / "kept_m0").glob("attempt-*/part-*.parquet")
    data.write_bytes(data.read_bytes()[:-1])
    failure = (await bench.run(graph := first_graph(bench, tmp_path), "sink-m0")).failure
    assert failure is not None
    assert failure.error == "ResultDamaged"
    assert failure.labels == {"damaged-result": "kept_m0"}
    assert failure.retriable

    again = await bench.run(graph, "kept_m0")
    assert again.failure is None
    assert again.progress.rows_written == 6
    assert (await bench.run(graph, "sink-m0")).failure is None
    assert Scenario(bench, tmp_path, "m0").rows() == [0, 1, 2, 3, 4, 5]


def first_graph(bench: Bench, root: Path) -> JobGraph:
    return Scenario(bench, root, "m0").graph("errorifexists", materialized=True)

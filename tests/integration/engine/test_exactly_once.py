"""A runner dies at each failpoint of writing; the next attempt leaves every row once."""

# Functions that travel to a runner bring their own imports.
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

LONG = os.environ.get("STOKER_ENGINE") == "long"
PUBLISHING = sorted(name for name in RUNNER_FAILPOINTS if name.startswith("publishing."))
MATERIALIZED = sorted(name for name in RUNNER_FAILPOINTS if name.startswith("materialized."))
DECIDED = ("after-record", "move", "removing")
SAMPLE = ("publishing.before-record", "publishing.after-record", "publishing.after-a-move")
TRIED = [name for name in PUBLISHING if "replaced" not in name] if LONG else SAMPLE
"""All failpoints with STOKER_ENGINE=long; unit tests crash at each of them without Spark."""


def dying_once(marker: Path, runs: Path) -> Callable[..., Any]:
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


class Story:
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
                read=function(dying_once(self.marker, self.runs), "spark"),
                materialized=materialized,
            ),
            Transform(name="all", inputs=(kept,), compute=Sql(query=f"SELECT * FROM `{kept}`")),
            Sink(name=f"sink-{self.name}", input="all", write=write, mode=mode),
        )

    def put_old(self, partition: int) -> None:
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

    def times_run(self) -> int:
        return len(self.runs.read_text().splitlines())


@pytest.mark.parametrize("at", TRIED)
async def test_an_append_writes_every_row_once_wherever_its_runner_dies(
    bench: Bench, tmp_path: Path, at: str
) -> None:
    story = Story(bench, tmp_path, "append")
    story.put_old(1)
    await story.die_and_retry(story.graph("append"), at, "sink-append")
    assert story.rows() == [0, 1, 2, 3, 4, 5, 101]
    assert story.leftovers() == []
    assert story.times_run() == (1 if any(word in at for word in DECIDED) else 2)


@pytest.mark.parametrize(("how", "rows"), [("static", []), ("dynamic", [109])])
async def test_the_next_attempt_finishes_an_overwrite_that_died_while_removing_old_files(
    bench: Bench, tmp_path: Path, how: str, rows: list[int]
) -> None:
    story = Story(bench, tmp_path, how)
    story.put_old(1)
    story.put_old(9)
    graph = story.graph("overwrite", partitionOverwriteMode=how)
    at = "publishing.before-removing-replaced"
    await story.die_and_retry(graph, at, f"sink-{how}")
    assert story.rows() == [0, 1, 2, 3, 4, 5, *rows]
    assert story.times_run() == 1


async def test_an_existing_target_is_refused_with_an_explanation_and_not_retried(
    bench: Bench, tmp_path: Path
) -> None:
    story = Story(bench, tmp_path, "exists")
    story.put_old(1)
    failure = (await bench.run(story.graph("errorifexists"))).failure
    assert failure is not None
    assert "which already exists" in failure.message
    assert not failure.retriable
    assert (await bench.run(story.graph("ignore"))).failure is None
    assert story.rows() == [101]


async def test_a_materialized_vertex_survives_its_runner_and_is_computed_again_when_damaged(
    bench: Bench, tmp_path: Path
) -> None:
    bench.root = tmp_path / "a place"
    bench.root.mkdir()
    for number, at in enumerate(MATERIALIZED):
        story = Story(bench, tmp_path, f"m{number}")
        graph = story.graph("errorifexists", materialized=True)
        await story.die_and_retry(graph, at, f"kept_m{number}")
        assert story.times_run() == (1 if at == "materialized.after-manifest" else 2)

    [data, *_] = (bench.root / "materialized" / "kept_m0").glob("attempt-*/part-*.parquet")
    data.write_bytes(data.read_bytes()[:-1])
    failure = (await bench.run(graph := story_of(bench, tmp_path), "sink-m0")).failure
    assert failure is not None
    assert failure.error == "ResultDamaged"
    assert failure.labels == {"damaged-result": "kept_m0"}
    assert failure.retriable

    again = await bench.run(graph, "kept_m0")
    assert again.failure is None
    assert again.progress.rows_written == 6
    assert (await bench.run(graph, "sink-m0")).failure is None
    assert Story(bench, tmp_path, "m0").rows() == [0, 1, 2, 3, 4, 5]


def story_of(bench: Bench, root: Path) -> JobGraph:
    return Story(bench, root, "m0").graph("errorifexists", materialized=True)

"""A stream into a real PostgreSQL: a batch that fails after its effects is repeated."""

# Functions that are sent to a runner contain their own imports.
# ruff: noqa: PLC0415

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from builders import build_graph
from integration.engine.bench import Bench, function
from integration.postgres import postgres
from stoker.core.graph import FormatRead, Sink, Source
from stoker.sinks import append_to_postgres

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def database() -> Iterator[str]:
    with postgres() as url:
        yield url


def failing_after_its_effects(
    write: Callable[[Any, int], None], marker: Path
) -> Callable[[Any, int], None]:
    path = str(marker)

    def write_then_fail(frame, batch_id):
        from pathlib import Path

        write(frame, batch_id)
        if batch_id == 1 and not Path(path).exists():
            Path(path).touch()
            raise RuntimeError("after the effects and before the commit")

    return write_then_fail


async def test_every_row_of_a_stream_is_in_the_table_once(
    bench: Bench, tmp_path: Path, database: str
) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE words (word text)")
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.json").write_text(json.dumps({"word": f"w{number}"}))
    source = FormatRead(
        format="json",
        path=str(tmp_path / "in"),
        schema="word STRING",
        options={"maxFilesPerTrigger": "1"},
    )
    write = append_to_postgres(database, "words", sink="words of the test")
    failing = failing_after_its_effects(write, tmp_path / "marker")
    graph = build_graph(
        Source(name="words", read=source, streaming=True),
        Sink(name="out", input="words", write=function(failing), trigger="available-now"),
    )
    failed = await bench.run(graph)
    assert failed.failure is not None
    assert "after the effects" in failed.failure.message
    again = await bench.run(graph)
    assert again.failure is None, again.failure
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT word FROM words ORDER BY word").fetchall()
    assert rows == [("w0",), ("w1",), ("w2",)]

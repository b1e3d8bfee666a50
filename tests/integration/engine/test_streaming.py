"""Streaming regions on a real Spark."""

import json
from pathlib import Path

import pytest

from builders import build_graph
from integration.engine.bench import Bench, function
from stoker.core.graph import FormatRead, FormatWrite, Sink, Source, Sql, Transform
from stoker.core.states import ExecutionState
from stoker.engine.region.locations import FILE_MANAGER

_MANAGERS = "org.apache.spark.sql.execution.streaming.checkpointing"
FILE_CONTEXT = f"{_MANAGERS}.FileContextBasedCheckpointFileManager"
WITHOUT_LINKS = f"{_MANAGERS}.FileSystemBasedCheckpointFileManager"

pytestmark = pytest.mark.asyncio(loop_scope="session")


def words(directory: Path) -> Source:
    directory.mkdir(exist_ok=True)
    return Source(
        name="words",
        read=FormatRead(format="json", path=str(directory), schema="word STRING"),
        streaming=True,
    )


def write_words(directory: Path, name: str, *values: str) -> None:
    (directory / name).write_text("\n".join(json.dumps({"word": value}) for value in values))


async def test_a_stream_reads_its_input_and_continues_from_its_checkpoint(
    bench: Bench, tmp_path: Path
) -> None:
    source = words(tmp_path / "in")
    count = "SELECT word, count(*) AS n FROM words GROUP BY word"
    sink = Sink(
        name="count_of_words",
        input="counted",
        write=FormatWrite(format="memory"),
        mode="complete",
        trigger="available-now",
    )
    plain = Sink(
        name="out",
        input="words",
        write=FormatWrite(format="parquet", path=str(tmp_path / "out")),
        trigger="available-now",
    )
    counted = Transform(name="counted", inputs=("words",), compute=Sql(query=count))
    graph = build_graph(source, plain)
    write_words(tmp_path / "in", "1.json", "ash", "oak", "ash")
    first = await bench.run(graph)
    write_words(tmp_path / "in", "2.json", "elm")
    second = await bench.run(graph)
    for outcome in (first, second):
        assert outcome.failure is None, outcome.failure
        assert outcome.state is ExecutionState.FINISHED
    assert (first.progress.batch_id, first.progress.rows_read) == (0, 3)
    assert (second.progress.batch_id, second.progress.rows_read) == (1, 1)
    assert first.progress.query_id == second.progress.query_id
    assert first.progress.run_id != second.progress.run_id
    assert list((tmp_path / "out").glob("*.parquet"))
    aggregated = await bench.run(build_graph(source, counted, sink))
    assert aggregated.failure is None, aggregated.failure
    assert aggregated.progress.rows_read == 4


async def test_a_python_function_receives_each_batch(bench: Bench, tmp_path: Path) -> None:
    target = str(tmp_path / "out")

    def keep(df, batch_id):
        df.write.mode("append").json(target)

    write_dir = tmp_path / "in"
    source = words(write_dir)
    write_words(write_dir, "1.json", "ash", "oak")
    sink = Sink(
        name="out",
        input="words",
        write=function(keep, "df", "batch_id"),
        trigger="available-now",
    )
    outcome = await bench.run(build_graph(source, sink))
    assert outcome.failure is None, outcome.failure
    written = "".join(part.read_text() for part in (tmp_path / "out").glob("part-*"))
    assert sorted(json.loads(line)["word"] for line in written.splitlines()) == ["ash", "oak"]


async def test_a_batch_frame_with_a_trigger_is_refused_with_an_explanation(bench: Bench) -> None:
    source = Source(name="words", read=Sql(query="SELECT 'ash' AS word"))
    sink = Sink(
        name="out", input="words", write=FormatWrite(format="noop"), trigger="available-now"
    )
    failure = (await bench.run(build_graph(source, sink))).failure
    assert failure is not None
    assert failure.error == "StreamingMismatch"
    assert "remove the trigger" in failure.message
    assert not failure.retriable


@pytest.mark.parametrize("chosen", [None, FILE_CONTEXT])
async def test_checkpoints_are_written_without_starting_a_process_for_each_file_name(
    bench: Bench, tmp_path: Path, chosen: str | None
) -> None:
    """The query runs with the file manager without links, unless the job chose another."""
    seen = str(tmp_path / "seen")

    def record_setting(df, batch_id):
        key = "spark.sql.streaming.checkpointFileManagerClass"
        with open(seen, "a") as file:
            file.write(df.sparkSession.conf.get(key) + "\n")

    source = words(tmp_path / "in")
    write_words(tmp_path / "in", "1.json", "ash")
    sink = Sink(
        name="out",
        input="words",
        write=function(record_setting, "df", "batch_id"),
        trigger="available-now",
    )
    configuration = {} if chosen is None else {FILE_MANAGER: chosen}
    outcome = await bench.run(build_graph(source, sink, configuration=configuration))
    assert outcome.failure is None, outcome.failure
    assert Path(seen).read_text().split() == [chosen or WITHOUT_LINKS]

"""Stateful streaming queries for the tests of this folder, with input and output in files.

The queries are a window that evicts, the same in SQL, a join of two streams and a deduplication.
With TEST_SAVEPOINTS=long there is more data, and a query that manages its state itself.
"""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow.dataset

from builders import build_graph
from file_sink import committed_files
from integration.engine.bench import function
from stoker.core.graph import FormatRead, FormatWrite, JobGraph, Sink, Source, Sql, Transform

LONG = os.environ.get("TEST_SAVEPOINTS") == "long"
FILES, ROWS = (40, 500) if LONG else (8, 40)
FEW_FILES = 12
"""Input files of a query with slow batches; more than the ten after which a log is compacted."""
PURGE_EARLY = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
}


def write_input(folder: Path, numbers: Iterable[int]) -> None:
    """Write a file for each number, with half a minute of event time and one repeated row."""
    folder.mkdir(exist_ok=True)
    for file in numbers:
        rows = [
            {"n": n, "k": n % 11, "at": f"2024-01-01T{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}"}
            for n in range(file * ROWS, (file + 1) * ROWS)
        ]
        text = "".join(json.dumps(row) + "\n" for row in [*rows, rows[0]])
        unfinished = folder / f".{file}"
        unfinished.write_text(text)
        unfinished.rename(folder / f"{file:05}.json")


def source(name: str, folder: Path) -> Source:
    schema = "n LONG, k LONG, at TIMESTAMP"
    options = {"maxFilesPerTrigger": "1"}
    read = FormatRead(format="json", path=str(folder), schema=schema, options=options)
    return Source(name=name, read=read, streaming=True)


def windows(raw):
    from pyspark.sql import functions as f  # noqa: PLC0415

    timed = raw.withWatermark("at", "10 seconds")
    counted = timed.groupBy(f.window("at", "20 seconds")).agg(f.count("*").alias("rows"))
    return counted.select(f.unix_timestamp("window.start").alias("key"), "rows")


def watermarked(raw):
    return raw.withWatermark("at", "10 seconds")


WINDOWS_IN_SQL = """
SELECT unix_timestamp(window.start) AS key, rows
FROM (SELECT window(at, '20 seconds') AS window, count(*) AS rows FROM timed GROUP BY 1)
"""


def distinct(raw):
    timed = raw.withWatermark("at", "1 minute").dropDuplicatesWithinWatermark(["n"])
    return timed.selectExpr("n AS key", "1 AS rows")


def joined(left, right):
    from pyspark.sql import functions as f  # noqa: PLC0415

    a = left.withWatermark("at", "1 minute").dropDuplicatesWithinWatermark(["n"]).alias("a")
    b = right.withWatermark("at", "1 minute").selectExpr("n AS m", "at AS seen").alias("b")
    both = a.join(b, f.expr("n = m AND seen BETWEEN at AND at + INTERVAL 1 SECOND"))
    return both.selectExpr("n AS key", "1 AS rows")


def totals(raw):
    """Yield a row for each key and batch with the number of rows so far."""
    from pyspark.sql import Row  # noqa: PLC0415
    from pyspark.sql.streaming import StatefulProcessor  # noqa: PLC0415

    class Total(StatefulProcessor):
        def init(self, handle):
            self._total = handle.getValueState("total", "n LONG")

        def handleInputRows(self, key, rows, timerValues):
            known = self._total.get() if self._total.exists() else (0,)
            total = known[0] + sum(1 for _ in rows)
            self._total.update((total,))
            yield Row(key=key[0], rows=total)

        def close(self):
            pass

    return raw.groupBy("k").transformWithState(
        statefulProcessor=Total(),
        outputStructType="key LONG, rows LONG",
        outputMode="append",
        timeMode="none",
    )


QUERIES: dict[str, tuple[Callable[..., Any] | str, tuple[str, ...]]] = {
    "windows": (windows, ("raw",)),
    "windows in SQL": (WINDOWS_IN_SQL, ("raw",)),
    "distinct": (distinct, ("raw",)),
    "joined": (joined, ("left", "right")),
}
if LONG:
    # Spark gives a Python worker ten seconds, which is too short on a busy machine.
    QUERIES["totals"] = (totals, ("raw",))


def graph_of_query(name: str, inputs: Path, out: Path, trigger: str | None = None) -> JobGraph:
    compute, sources = QUERIES[name]
    if isinstance(compute, str):
        timed = Transform(name="timed", inputs=sources, compute=function(watermarked, *sources))
        query = Transform(name="computed", inputs=("timed",), compute=Sql(query=compute))
        transforms = (timed, query)
    else:
        query = Transform(name="computed", inputs=sources, compute=function(compute, *sources))
        transforms = (query,)
    return build_graph(
        *(source(each, inputs) for each in sources),
        *transforms,
        Sink(
            name="out",
            input="computed",
            write=FormatWrite(format="parquet", path=str(out)),
            mode="append",
            trigger=trigger,
        ),
        configuration=PURGE_EARLY,
    )


def rows_in(*directories: Path) -> list[tuple[int, int]]:
    """The rows that file sinks wrote in committed batches."""
    files = {path for directory in directories for path in committed_files(directory)}
    if not files:
        return []
    table = pyarrow.dataset.dataset(sorted(map(str, files)), format="parquet").to_table()
    return sorted(zip(table["key"].to_pylist(), table["rows"].to_pylist(), strict=True))

"""A streaming job over numbered lines: its input, its queries, and their expected output.

No Python function runs in Spark, because a busy machine does not start Python workers in time.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stoker import Pipeline
from stoker.core.graph import JobGraph
from stoker.core.ids import JobId

SCHEMA = "line LONG, n LONG, at TIMESTAMP"
WINDOW_SECONDS = 10
BEGIN = 1_700_000_000
FAR_SECONDS = 10_000_000
"""Event time of the last lines, in seconds after `BEGIN`: it closes every window."""
PURGING = {
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
    # `JobOutput` reads the files of each batch from the log of the sink.
    "spark.sql.streaming.fileSink.log.deletion": "false",
}
PARTITIONS = "spark.sql.shuffle.partitions"

Rows = Counter[tuple[int, int]]
"""The content of a sink: pairs of a key and a number, each with its count."""


def _copied(lines: Any) -> Any:
    return lines.selectExpr("line AS key", "n AS rows")


def _distinct(lines: Any) -> Any:
    return lines.dropDuplicates(["n"]).selectExpr("n AS key", "1L AS rows")


def _windows(lines: Any) -> Any:
    from pyspark.sql import functions as f  # noqa: PLC0415

    timed = lines.withWatermark("at", "1 minute").selectExpr("line", "at")
    counted = timed.groupBy(f.window("at", "10 seconds")).agg(f.count("*").alias("rows"))
    return counted.selectExpr("unix_timestamp(window.start) AS key", "rows")


def _joined(lines: Any) -> Any:
    """Joins each line with itself, so that both sides are kept as state."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    left = lines.withWatermark("at", "1 minute")
    right = lines.withWatermark("at", "1 minute").selectExpr("line AS m", "at AS seen")
    near = "line = m AND seen BETWEEN at AND at + INTERVAL 1 SECOND"
    return left.join(right, f.expr(near)).selectExpr("line AS key", "n AS rows")


QUERIES: Mapping[str, Callable[[Any], Any]] = {
    "copied": _copied,
    "distinct": _distinct,
    "windows": _windows,
    "joined": _joined,
}


class NumberedLines:
    """The input: files of lines, some of which repeat earlier numbers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._staging = folder.with_name(f"{folder.name}-staging")
        for directory in (self.folder, self._staging):
            directory.mkdir(parents=True)
        self._lines: list[tuple[int, int, int]] = []
        self._files = 0

    def __len__(self) -> int:
        return len(self._lines)

    def feed(self, files: int, lines: int = 5) -> None:
        for _ in range(files):
            first = len(self._lines)
            # Every third line repeats an earlier number.
            self._write(
                [
                    (line, line // 2 if line % 3 == 2 else line, BEGIN + line)
                    for line in range(first, first + lines)
                ]
            )

    def close_windows(self) -> None:
        """Close all windows: no line that is fed afterwards counts in them."""
        line = len(self._lines)
        self._write([(line, line, BEGIN + FAR_SECONDS)])

    def _write(self, lines: list[tuple[int, int, int]]) -> None:
        texts = [json.dumps({"line": line, "n": n, "at": _time(at)}) for line, n, at in lines]
        unfinished = self._staging / f"{self._files:05}.json"
        unfinished.write_text("".join(text + "\n" for text in texts))
        # Renamed into place: the stream never sees half a file.
        unfinished.rename(self.folder / unfinished.name)
        self._files += 1
        self._lines += lines

    def expected(self, query: str) -> Rows:
        match query:
            case "copied" | "joined":
                return Counter((line, n) for line, n, _at in self._lines)
            case "distinct":
                return Counter({(n, 1): 1 for _line, n, _at in self._lines})
            case "windows":
                starts = Counter(
                    at - at % WINDOW_SECONDS
                    for _line, _n, at in self._lines
                    if at < BEGIN + FAR_SECONDS
                )
                return Counter(dict.fromkeys(starts.items(), 1))
        raise KeyError(query)


def job_over(
    lines: NumberedLines,
    queries: Sequence[str],
    sinks: Path,
    *,
    job_id: JobId,
    partitions: int,
) -> JobGraph:
    """One sink for each query, in a directory with the name of the query."""
    configuration = {**PURGING, PARTITIONS: str(partitions)}
    pipeline = Pipeline("numbered-lines", configuration=configuration)
    pipeline.source(
        "lines",
        format="json",
        path=str(lines.folder),
        schema=SCHEMA,
        streaming=True,
        options={"maxFilesPerTrigger": "2"},
    )
    for query in queries:
        pipeline.transform(name=f"{query}_rows")(QUERIES[query])
        pipeline.sink(
            f"{query}_rows",
            name=query,
            format="parquet",
            path=str(sinks / query),
            trigger="200 milliseconds",
        )
    return pipeline.build(job_id=job_id)


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

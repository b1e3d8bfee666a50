"""Following a streaming query to its end."""

from collections.abc import Iterator
from typing import Any

from stoker.core.results import Progress

_POLL_SECONDS = 0.5


def watch_stream(query: Any) -> Iterator[Progress]:
    """Progress whenever a batch was committed; ends with the query, raises with its failure."""
    seen = _Seen(query_id=str(query.id), run_id=str(query.runId))
    yield seen.progress
    ended = False
    while not ended:
        # Also keeps the session from counting as idle, which would stop its streams.
        ended = bool(query.awaitTermination(_POLL_SECONDS))
        if seen.add(query.recentProgress if ended else _latest(query)):
            yield seen.progress


def _latest(query: Any) -> list[Any]:
    latest = query.lastProgress
    return [] if latest is None else [latest]


class _Seen:
    """Sums up batches of this run; a batch is counted once however often it is seen."""

    def __init__(self, *, query_id: str, run_id: str) -> None:
        self._last_batch = -1
        self.progress = Progress(query_id=query_id, run_id=run_id, rows_read=0)

    def add(self, reports: list[Any]) -> bool:
        changed = False
        for report in reports:
            batch = int(report["batchId"])
            # While idle Spark repeats the number of the next batch, with no rows in it.
            committed = "addBatch" in report["durationMs"]
            if batch <= self._last_batch or not committed:
                continue
            self._last_batch = batch
            before = self.progress
            self.progress = Progress(
                query_id=before.query_id,
                run_id=before.run_id,
                batch_id=batch,
                batches=before.batches + 1,
                rows_read=(before.rows_read or 0) + int(report.numInputRows),
                rows_written=_rows_written(before.rows_written, report),
                rows_per_second=float(report.processedRowsPerSecond or 0),
            )
            changed = True
        return changed


def _rows_written(before: int | None, report: Any) -> int | None:
    written = report["sink"]["numOutputRows"]
    # Sinks that do not count say -1, or nothing.
    return before if written is None or written < 0 else (before or 0) + int(written)

"""Follow a streaming query to its end, and report its progress.

A hundred streams may run on one machine, and every call to Spark costs it CPU. Therefore the end of
a query is awaited in long calls, and a stream without news is polled less often.
"""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from typing import Any

from stoker.core.checkpoints import BatchFigures
from stoker.core.results import Progress
from stoker.engine.streams.backlog import backlog_of

_STEP_SECONDS = 0.5
_BUSY_STEPS, _QUIET_STEPS = 2, 4
"""Steps between two polls of a busy stream and of a quiet one."""
_WAIT_SECONDS = 60


class StreamLost(Exception):
    """The query has ended, and the runner that took it over from a dead one cannot start it."""


def find_stream(session: Any, known: Progress) -> Any:
    """The running query with the known run id; raises StreamLost if it has ended."""
    for query in session.streams.active:
        if str(query.runId) == known.run_id:
            return query
    raise StreamLost(
        "the process that watched the stream died, and the stream had ended before another could "
        "take over; it continues from its checkpoint when the task is started again"
    )


def _nothing() -> None:
    """The default for `between_polls`."""


def watch_stream(
    query: Any, known: Progress | None = None, between_polls: Callable[[], None] = _nothing
) -> Iterator[Progress]:
    """Yield progress after each committed batch; ends with the query, raises its failure.

    `between_polls` is called every half second, so it must be cheap. It may stop the query.
    """
    first = Progress(query_id=str(query.id), run_id=str(query.runId), rows_read=0)
    seen = _ProgressCounter(known or first)
    if known is not None:
        seen.add(query.recentProgress)
    yield seen.progress
    ended = _end_of(query)
    steps, pause = 0, 1
    while True:
        between_polls()
        if wait([ended], _STEP_SECONDS).done:
            break
        steps += 1
        if steps < pause:
            continue
        has_news = seen.add(_latest(query, seen.last_batch))
        steps, pause = 0, _BUSY_STEPS if has_news else min(2 * pause, _QUIET_STEPS)
        if has_news:
            yield seen.progress
    ended.result()
    if seen.add(query.recentProgress):
        yield seen.progress


def _end_of(query: Any) -> "Future[None]":
    """A future that is done when the query has ended; it carries the failure of the query."""
    waiting = ThreadPoolExecutor(1, "end-of-stream")
    try:
        return waiting.submit(_wait_for_end, query)
    finally:
        waiting.shutdown(wait=False)


def _wait_for_end(query: Any) -> None:
    # Not one endless call: after the death of this process it would continue at the server.
    while not query.awaitTermination(_WAIT_SECONDS):
        pass


def _latest(query: Any, seen: int) -> list[Any]:
    """The last report, or all that Spark still has if reports were missed."""
    latest = query.lastProgress
    if latest is None:
        return []
    return [latest] if int(latest["batchId"]) <= seen + 1 else list(query.recentProgress)


class _ProgressCounter:
    """Adds up the batches of this run; counts a batch once however often it is reported."""

    def __init__(self, progress: Progress) -> None:
        self.last_batch = -1 if progress.batch_id is None else progress.batch_id
        self.progress = progress

    def add(self, reports: list[Any]) -> bool:
        changed = False
        for report in reports:
            batch = int(report["batchId"])
            # While idle, Spark reports the number of the next batch with no rows.
            committed = "addBatch" in report["durationMs"]
            if batch <= self.last_batch or not committed:
                continue
            self.last_batch = batch
            before = self.progress
            self.progress = Progress(
                query_id=before.query_id,
                run_id=before.run_id,
                batch_id=batch,
                batches=before.batches + 1,
                rows_read=(before.rows_read or 0) + int(report.numInputRows),
                rows_written=_rows_written(before.rows_written, report),
                rows_per_second=float(report.processedRowsPerSecond or 0),
                recent_batches=(*before.recent_batches, figures_of(report))[-REPORTED_BATCHES:],
            )
            changed = True
        return changed


def _rows_written(before: int | None, report: Any) -> int | None:
    written = report["sink"]["numOutputRows"]
    # Sinks that do not count report -1 or nothing.
    return before if written is None or written < 0 else (before or 0) + int(written)


REPORTED_BATCHES = 10
"""Batches in one report; the job master keeps a history of them."""
_LONGEST_OFFSET = 2000


def figures_of(report: Any) -> BatchFigures:
    """The figures of a checkpoint, from Spark's report of a batch."""
    durations = {str(key): int(value) for key, value in report["durationMs"].items()}
    operators = report["stateOperators"] or []
    return BatchFigures(
        batch_id=int(report["batchId"]),
        at=_millis(str(report["timestamp"])),
        rows=int(report.numInputRows),
        duration_ms=durations.pop("triggerExecution", sum(durations.values())),
        phases=durations,
        state_rows=sum(int(each["numRowsTotal"]) for each in operators),
        state_bytes=sum(int(each["memoryUsedBytes"]) for each in operators),
        watermark=(report["eventTime"] or {}).get("watermark"),
        input_rows_per_second=_rate(report.inputRowsPerSecond),
        backlog=backlog_of(report["sources"] or []),
        offsets={
            f"{number}: {source['description']}": str(source["endOffset"])[:_LONGEST_OFFSET]
            for number, source in enumerate(report["sources"] or [])
        },
    )


def _rate(value: Any) -> float | None:
    """Spark has no rate for the first batch, and tells that as NaN or nothing."""
    rate = float(value or 0)
    return rate if math.isfinite(rate) else None


def _millis(timestamp: str) -> int:
    moment = datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)

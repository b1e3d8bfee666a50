"""Following a streaming query, with a fake query that the test controls."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.streaming.query import StreamingQueryProgress

from stoker.core.results import Progress
from stoker.engine.streams import watch as stream_watch
from stoker.engine.streams.watch import watch_stream


class FakeQuery:
    id, runId = "query", "run"

    def __init__(self) -> None:
        self.reports: list[StreamingQueryProgress] = []
        self.over = threading.Event()
        self.failure: Exception | None = None
        self.looks = 0
        self.waits = 0

    def commit(self, batch: int, rows: int = 1) -> None:
        self.reports.append(report(batch, rows))

    def end(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.over.set()

    def awaitTermination(self, seconds: float) -> bool:
        self.waits += 1
        ended = self.over.wait(seconds)
        if self.failure is not None:
            raise self.failure
        return ended

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:
        self.looks += 1
        return self.reports[-1] if self.reports else None

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:
        return list(self.reports)


def report(batch: int, rows: int) -> StreamingQueryProgress:
    return StreamingQueryProgress.fromJson(
        {
            "id": "3bd0ad9c-3f1e-4b6c-9d3a-6a8f4f3f6a11",
            "runId": "3bd0ad9c-3f1e-4b6c-9d3a-6a8f4f3f6a12",
            "name": "out",
            "timestamp": "2026-01-01T00:00:00.000Z",
            "batchId": batch,
            "batchDuration": 10,
            "durationMs": {"addBatch": 5, "triggerExecution": 10},
            "eventTime": {},
            "stateOperators": [],
            "sources": [],
            "sink": {"description": "noop", "numOutputRows": -1, "metrics": {}},
            "numInputRows": rows,
            "inputRowsPerSecond": 1.0,
            "processedRowsPerSecond": 1.0,
            "observedMetrics": {},
        }
    )


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_watch, "_STEP_SECONDS", 0.001)


def follow(
    query: FakeQuery, acts: dict[int, Callable[[], None]], known: Progress | None = None
) -> list[Progress]:
    """Follow a query and run each action at its step; the query must end by the last step."""
    step = 0

    def between() -> None:
        nonlocal step
        step += 1
        assert step <= max(acts), "the watch continues after the end of the query"
        acts.get(step, lambda: None)()

    seen: list[Progress] = []
    for progress in watch_stream(query, known, between):
        seen.append(progress)
    return seen


@pytest.mark.usefixtures("steps")
def test_every_batch_is_reported_once() -> None:
    query = FakeQuery()

    def two_more() -> None:
        query.commit(1, 10)
        query.commit(2, 100)

    def last() -> None:
        query.commit(3, 1000)
        query.end()
        query.over.wait()

    seen = follow(query, {1: lambda: query.commit(0), 20: two_more, 40: last, 60: _never})
    assert [progress.rows_read for progress in seen] == [0, 1, 111, 1111]
    assert seen[-1].batches == 4


@pytest.mark.usefixtures("steps")
def test_a_quiet_stream_is_polled_less_often_and_its_end_awaited_in_one_call() -> None:
    query = FakeQuery()
    follow(query, {400: query.end, 420: _never})
    assert 400 / 5 < query.looks < 400 / 3
    assert query.waits == 1


@pytest.mark.usefixtures("steps")
def test_the_failure_of_the_query_is_raised() -> None:
    query = FakeQuery()
    with pytest.raises(ValueError, match="no such column"):
        follow(query, {3: lambda: query.end(ValueError("no such column")), 20: _never})


@pytest.mark.usefixtures("steps")
def test_a_takeover_continues_the_counts_of_the_dead_runner() -> None:
    query = FakeQuery()
    query.commit(4, 10)
    query.commit(5, 100)
    known = Progress(query_id="query", run_id="run", batch_id=4, batches=5, rows_read=50)
    seen = follow(query, {1: query.end, 20: _never}, known)
    assert [(progress.batch_id, progress.rows_read) for progress in seen] == [(5, 150)]


@pytest.mark.timeout(30)
def test_the_end_of_a_query_is_noticed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_watch, "_STEP_SECONDS", 600)
    query = FakeQuery()
    watching: Any = watch_stream(query)
    next(watching)
    threading.Timer(0.05, query.end).start()
    with pytest.raises(StopIteration):
        next(watching)


def _never() -> None:
    raise AssertionError("the watch has not noticed the end")

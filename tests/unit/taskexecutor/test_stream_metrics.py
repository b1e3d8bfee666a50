"""The figures of a stream as metrics."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.core.checkpoints import BatchFigures
from stoker.core.results import Progress
from stoker.metrics.registry import MetricRegistry
from stoker.taskexecutor.stream_metrics import StreamMetrics
from unit.metrics.readings import values

LABELS = {"job_id": "1", "job_name": "clicks", "region": "out"}


def batch(number: int, **fields: object) -> BatchFigures:
    facts = {"batch_id": number, "at": 1000 * number, "duration_ms": 500, **fields}
    return BatchFigures(**facts)  # type: ignore[arg-type]


def shown(registry: MetricRegistry) -> dict[str, float]:
    """Values by the name of the metric and the labels beyond those of the stream."""
    return {
        " ".join((name.removeprefix("stoker_stream_"), *labels[3:])): value
        for (name, *labels), value in values(registry).items()
    }


@given(st.lists(st.integers(0, 30), max_size=20))
def test_a_batch_counts_once_however_often_it_is_reported(ends: list[int]) -> None:
    """Reports overlap, come late, or skip batches that nobody saw."""
    registry = MetricRegistry()
    stream = StreamMetrics(registry.process.group(**LABELS))
    seen: set[int] = set()
    newest = -1
    for end in ends:
        reported = [number for number in range(end - 9, end + 1) if number >= 0]
        seen |= {number for number in reported if number > newest}
        newest = max(newest, end)
        batches = tuple(batch(number, phases={"addBatch": 400}) for number in reported)
        stream.note(Progress(recent_batches=batches))
    figures = shown(registry)
    assert figures.get("batch_duration_seconds", 0) == 0.5 * len(seen)
    assert round(figures.get("phase_seconds_total addBatch", 0), 6) == round(0.4 * len(seen), 6)


def test_the_last_batch_tells_rates_state_backlog_and_when_it_was_committed() -> None:
    registry = MetricRegistry()
    stream = StreamMetrics(registry.process.group(**LABELS))
    last = batch(7, state_rows=10, state_bytes=2048, input_rows_per_second=3.5, backlog=12)
    stream.note(
        Progress(
            batches=8,
            rows_read=100,
            rows_per_second=50.0,
            recent_batches=(batch(6, watermark="1970-01-01T00:01:00.000Z"), last),
        )
    )
    assert shown(registry) == {
        "batches_total": 8,
        "rows_read_total": 100,
        "processed_rows_per_second": 50.0,
        "input_rows_per_second": 3.5,
        "watermark_timestamp_seconds": 60.0,
        "checkpoint_timestamp_seconds": 7.5,
        "state_rows": 10,
        "state_bytes": 2048,
        "backlog_offsets": 12,
        "batch_duration_seconds": 1.0,
    }


def test_a_stream_without_a_batch_shows_no_figures_of_one() -> None:
    registry = MetricRegistry()
    StreamMetrics(registry.process.group(**LABELS))
    assert shown(registry) == {"batches_total": 0}

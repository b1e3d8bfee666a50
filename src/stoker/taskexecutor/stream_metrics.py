"""The figures of a stream that runs here, as metrics.

They are measured where they arise, so that they have no hole when masters die and cost them
nothing. Spark reports the last few batches again and again; each batch counts once.
"""

from collections.abc import Callable

from stoker.core.checkpoints import BatchFigures
from stoker.core.results import Progress, watermark_of
from stoker.metrics.catalogue import (
    STREAM_BACKLOG,
    STREAM_BATCH_DURATION,
    STREAM_BATCHES,
    STREAM_CHECKPOINT,
    STREAM_INPUT_RATE,
    STREAM_PHASES,
    STREAM_PROCESSING_RATE,
    STREAM_ROWS_READ,
    STREAM_ROWS_WRITTEN,
    STREAM_STATE_BYTES,
    STREAM_STATE_ROWS,
    STREAM_WATERMARK,
)
from stoker.metrics.definitions import MetricDefinition
from stoker.metrics.registry import MetricGroup


class StreamMetrics:
    """Shows the progress of one attempt for as long as its group is open."""

    def __init__(self, metrics: MetricGroup) -> None:
        """`metrics`: a group with the job and the region as labels."""
        self._progress = Progress()
        self._last_batch = -1
        self._durations = metrics.histogram(STREAM_BATCH_DURATION)
        self._phases = metrics.counter(STREAM_PHASES)
        of_attempt: dict[MetricDefinition, Callable[[Progress], float | None]] = {
            STREAM_BATCHES: lambda progress: progress.batches,
            STREAM_ROWS_READ: lambda progress: progress.rows_read,
            STREAM_ROWS_WRITTEN: lambda progress: progress.rows_written,
            STREAM_PROCESSING_RATE: lambda progress: progress.rows_per_second,
            STREAM_WATERMARK: _watermark_seconds,
        }
        of_batch: dict[MetricDefinition, Callable[[BatchFigures], float | None]] = {
            STREAM_INPUT_RATE: lambda batch: batch.input_rows_per_second,
            STREAM_CHECKPOINT: lambda batch: (batch.at + batch.duration_ms) / 1000,
            STREAM_STATE_ROWS: lambda batch: batch.state_rows,
            STREAM_STATE_BYTES: lambda batch: batch.state_bytes,
            STREAM_BACKLOG: lambda batch: batch.backlog,
        }
        for definition, read in of_attempt.items():
            metrics.gauge(definition, self._from_progress(read))
        for definition, read_batch in of_batch.items():
            metrics.gauge(definition, self._from_last_batch(read_batch))

    def note(self, progress: Progress) -> None:
        self._progress = progress
        for batch in progress.recent_batches:
            if batch.batch_id > self._last_batch:
                self._last_batch = batch.batch_id
                self._durations.observe(batch.duration_ms / 1000)
                for phase, milliseconds in batch.phases.items():
                    self._phases.increment(phase, by=milliseconds / 1000)

    def _from_progress(
        self, read: Callable[[Progress], float | None]
    ) -> Callable[[], float | None]:
        return lambda: read(self._progress)

    def _from_last_batch(
        self, read: Callable[[BatchFigures], float | None]
    ) -> Callable[[], float | None]:
        def of_last() -> float | None:
            batches = self._progress.recent_batches
            return read(batches[-1]) if batches else None

        return of_last


def _watermark_seconds(progress: Progress) -> float | None:
    milliseconds = watermark_of(progress)
    return None if milliseconds is None else milliseconds / 1000

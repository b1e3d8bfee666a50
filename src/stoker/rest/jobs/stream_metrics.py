"""What Spark tells of the last batch of a streaming query, as metrics.

| name | unit | Spark's own name |
|---|---|---|
| sparkRowsPerSecond | rows | processedRowsPerSecond |
| sparkBatchRows | rows | numInputRows |
| sparkBatchDuration | ms | triggerExecution |
| sparkBatchPhase.NAME | ms | the other parts of durationMs |
| sparkStateRows | rows | numRowsTotal of the state operators |
| sparkStateBytes | bytes | memoryUsedBytes of the state operators |
| sparkWatermark | ms since 1970 | watermark of the event time |
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from stoker.core.checkpoints import BatchFigures
from stoker.core.results import (
    Progress,
    RegionDetails,
)
from stoker.core.values import Millis

WATERMARK = "sparkWatermark"
_SUMS = ("sparkRowsPerSecond", "sparkBatchRows", "sparkStateRows", "sparkStateBytes")
Figure = float | int


def last_figures(progress: Progress) -> BatchFigures | None:
    """Of the newest batch that is known with its cost."""
    return progress.recent_batches[-1] if progress.recent_batches else None


def watermark_of(progress: Progress) -> Millis | None:
    """The newest one; a batch without rows may tell of none."""
    for batch in reversed(progress.recent_batches):
        if (found := _millis(batch.watermark)) is not None:
            return found
    return None


def stream_figures(progress: Progress) -> dict[str, Figure]:
    """Of one region; what is not known is not there."""
    last = last_figures(progress)
    known: dict[str, Figure] = {}
    if progress.rows_per_second is not None:
        known["sparkRowsPerSecond"] = progress.rows_per_second
    if last is not None:
        known |= {
            "sparkBatchRows": last.rows,
            "sparkBatchDuration": last.duration_ms,
            "sparkStateRows": last.state_rows,
            "sparkStateBytes": last.state_bytes,
        }
        known |= {f"sparkBatchPhase.{name}": value for name, value in last.phases.items()}
    if (watermark := watermark_of(progress)) is not None:
        known[WATERMARK] = watermark
    return known


def joint_stream_figures(regions: Sequence[RegionDetails]) -> dict[str, Figure]:
    """Of a whole job: rows and state are added, the slowest batch and the last watermark count."""
    each = [stream_figures(region.current.progress) for region in regions if region.streaming]
    joint: dict[str, Figure] = {}
    for name in _SUMS:
        if values := [figures[name] for figures in each if name in figures]:
            joint[name] = sum(values)
    if durations := [one["sparkBatchDuration"] for one in each if "sparkBatchDuration" in one]:
        joint["sparkBatchDuration"] = max(durations)
    if watermarks := [figures[WATERMARK] for figures in each if WATERMARK in figures]:
        joint[WATERMARK] = min(watermarks)
    return joint


def _millis(text: str | None) -> Millis | None:
    try:
        moment = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    if moment is None:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)

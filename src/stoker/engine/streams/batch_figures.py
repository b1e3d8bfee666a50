"""What Spark reports of a batch, as the figures of a checkpoint."""

from datetime import UTC, datetime
from typing import Any

from stoker.core.checkpoints import BatchFigures

KEPT = 10
"""Batches that one report carries; the job's master keeps a history of them."""
_LONGEST_OFFSET = 2000


def figures_of(report: Any) -> BatchFigures:
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
        offsets={
            f"{number}: {source['description']}": str(source["endOffset"])[:_LONGEST_OFFSET]
            for number, source in enumerate(report["sources"] or [])
        },
    )


def _millis(timestamp: str) -> int:
    moment = datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)

"""Answers about checkpoints, in the form of Flink's REST API."""

from typing import Any

from stoker.api.shape import Answer

NOT_A_NUMBER = "NaN"


class Summary(Answer, frozen=True, kw_only=True):
    """Of a figure over all checkpoints; the text NaN stands where there is none."""

    min: int = 0
    max: int = 0
    avg: int = 0
    p50: float | str = NOT_A_NUMBER
    p90: float | str = NOT_A_NUMBER
    p95: float | str = NOT_A_NUMBER
    p99: float | str = NOT_A_NUMBER
    p999: float | str = NOT_A_NUMBER


class Summaries(Answer, frozen=True, kw_only=True):
    checkpointed_size: Summary = Summary()
    state_size: Summary = Summary()
    end_to_end_duration: Summary = Summary()
    alignment_buffered: Summary = Summary(p50=0.0, p90=0.0, p95=0.0, p99=0.0, p999=0.0)
    processed_data: Summary = Summary()
    persisted_data: Summary = Summary()


class Counts(Answer, frozen=True, kw_only=True):
    restored: int = 0
    total: int = 0
    in_progress: int = 0
    completed: int = 0
    failed: int = 0


class Latest(Answer, frozen=True, kw_only=True):
    completed: dict[str, Any] | None = None
    savepoint: dict[str, Any] | None = None
    failed: dict[str, Any] | None = None
    restored: dict[str, Any] | None = None


class CheckpointStatistics(Answer, frozen=True, kw_only=True):
    """GET /jobs/:id/checkpoints"""

    counts: Counts = Counts()
    summary: Summaries = Summaries()
    latest: Latest = Latest()
    history: list[dict[str, Any]] = []


class Externalization(Answer, frozen=True, kw_only=True):
    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfig(Answer, frozen=True, kw_only=True):
    """GET /jobs/:id/checkpoints/config; times in milliseconds. What Spark has not is off."""

    mode: str = "exactly_once"
    interval: int = 0
    timeout: int = 0
    min_pause: int = 0
    max_concurrent: int = 1
    externalization: Externalization = Externalization(enabled=True, delete_on_cancellation=True)
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool = False
    tolerable_failed_checkpoints: int = 0
    aligned_checkpoint_timeout: int = 0
    checkpoints_after_tasks_finish: bool = False
    state_changelog_enabled: bool = False
    changelog_periodic_materialization_interval: int = 0
    changelog_storage: str = "none"

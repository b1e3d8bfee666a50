"""Answers about checkpoints, in the form of Flink's REST API."""

import msgspec

from stoker.api.shape import Answer

NOT_A_NUMBER = "NaN"
NOT_ADDRESSABLE = "<checkpoint-not-externally-addressable>"
"""Flink's path of a checkpoint from which no job can be started."""


class FigureSummary(Answer, frozen=True, kw_only=True):
    """Summary of one figure over several checkpoints; a quantile of no values is the text NaN."""

    min: int = 0
    max: int = 0
    avg: int = 0
    p50: float | str = NOT_A_NUMBER
    p90: float | str = NOT_A_NUMBER
    p95: float | str = NOT_A_NUMBER
    p99: float | str = NOT_A_NUMBER
    p999: float | str = NOT_A_NUMBER


NO_BUFFERS = FigureSummary(p50=0.0, p90=0.0, p95=0.0, p99=0.0, p999=0.0)
"""Summary of buffered bytes, always 0: Spark has no barriers to align."""


class CheckpointSummaries(Answer, frozen=True, kw_only=True):
    checkpointed_size: FigureSummary = FigureSummary()
    state_size: FigureSummary = FigureSummary()
    end_to_end_duration: FigureSummary = FigureSummary()
    alignment_buffered: FigureSummary = NO_BUFFERS
    processed_data: FigureSummary = FigureSummary()
    persisted_data: FigureSummary = FigureSummary()


class CheckpointTotals(Answer, frozen=True, kw_only=True):
    restored: int = 0
    total: int = 0
    in_progress: int = 0
    completed: int = 0
    failed: int = 0


class TaskCheckpoint(Answer, frozen=True, kw_only=True):
    """The part of one vertex in a checkpoint; sizes in bytes, times in milliseconds."""

    id: int
    status: str
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int = 0
    processed_data: int = 0
    """Bytes in flight that were processed during the checkpoint; always 0 in Spark."""
    persisted_data: int = 0
    num_subtasks: int
    num_acknowledged_subtasks: int


class CheckpointAnswer(
    Answer,
    frozen=True,
    kw_only=True,
    rename={"class_name": "className", "savepoint_format": "savepointFormat"},
):
    """One checkpoint: in the history, as the latest of its kind, or with its vertices."""

    class_name: str
    """completed, failed or in_progress"""
    id: int
    status: str
    is_savepoint: bool
    savepoint_format: str | None
    trigger_timestamp: int
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int = 0
    processed_data: int = 0
    persisted_data: int = 0
    num_subtasks: int
    num_acknowledged_subtasks: int
    checkpoint_type: str
    """CHECKPOINT, SAVEPOINT or SYNC_SAVEPOINT, which is the savepoint of a stop."""
    tasks: dict[str, TaskCheckpoint] = {}
    """By vertex id; filled only in the answer about one checkpoint."""
    external_path: str | msgspec.UnsetType = msgspec.UNSET
    discarded: bool | msgspec.UnsetType = msgspec.UNSET
    failure_timestamp: int | msgspec.UnsetType = msgspec.UNSET
    failure_message: str | msgspec.UnsetType = msgspec.UNSET


class RestoredCheckpoint(Answer, frozen=True, kw_only=True):
    """The checkpoint or savepoint from which the job started."""

    id: int
    restore_timestamp: int
    is_savepoint: bool
    external_path: str


class LatestCheckpoints(Answer, frozen=True, kw_only=True):
    completed: CheckpointAnswer | None = None
    savepoint: CheckpointAnswer | None = None
    failed: CheckpointAnswer | None = None
    restored: RestoredCheckpoint | None = None


class CheckpointStatistics(Answer, frozen=True, kw_only=True):
    """GET /jobs/:id/checkpoints"""

    counts: CheckpointTotals = CheckpointTotals()
    summary: CheckpointSummaries = CheckpointSummaries()
    latest: LatestCheckpoints = LatestCheckpoints()
    history: list[CheckpointAnswer] = []


class CheckpointPhases(Answer, frozen=True, kw_only=True, rename={"asynchronous": "async"}):
    sync: int = 0
    asynchronous: int = 0


class CheckpointAlignment(Answer, frozen=True, kw_only=True):
    buffered: int = 0
    processed: int = 0
    persisted: int = 0
    duration: int = 0


class SubtaskCheckpoint(Answer, frozen=True, kw_only=True, rename={"class_name": "className"}):
    """The part of one region in a checkpoint; a pending one has only an index and a status."""

    class_name: str
    """completed or pending"""
    index: int
    status: str
    """completed or pending_or_failed"""
    ack_timestamp: int | msgspec.UnsetType = msgspec.UNSET
    end_to_end_duration: int | msgspec.UnsetType = msgspec.UNSET
    checkpointed_size: int | msgspec.UnsetType = msgspec.UNSET
    state_size: int | msgspec.UnsetType = msgspec.UNSET
    checkpoint: CheckpointPhases | msgspec.UnsetType = msgspec.UNSET
    alignment: CheckpointAlignment | msgspec.UnsetType = msgspec.UNSET
    start_delay: int | msgspec.UnsetType = msgspec.UNSET
    unaligned_checkpoint: bool | msgspec.UnsetType = msgspec.UNSET
    aborted: bool | msgspec.UnsetType = msgspec.UNSET


class PhaseSummaries(Answer, frozen=True, kw_only=True, rename={"asynchronous": "async"}):
    sync: FigureSummary = FigureSummary()
    asynchronous: FigureSummary = FigureSummary()


class AlignmentSummaries(Answer, frozen=True, kw_only=True):
    buffered: FigureSummary = NO_BUFFERS
    processed: FigureSummary = FigureSummary()
    persisted: FigureSummary = FigureSummary()
    duration: FigureSummary = FigureSummary()


class SubtaskSummaries(Answer, frozen=True, kw_only=True):
    checkpointed_size: FigureSummary = FigureSummary()
    state_size: FigureSummary = FigureSummary()
    end_to_end_duration: FigureSummary = FigureSummary()
    checkpoint_duration: PhaseSummaries = PhaseSummaries()
    alignment: AlignmentSummaries = AlignmentSummaries()
    start_delay: FigureSummary = FigureSummary()


class VertexCheckpoint(TaskCheckpoint, frozen=True, kw_only=True):
    """GET /jobs/:id/checkpoints/details/:checkpointid/subtasks/:vertexid"""

    summary: SubtaskSummaries = SubtaskSummaries()
    subtasks: list[SubtaskCheckpoint] = []


class CheckpointExternalization(Answer, frozen=True, kw_only=True):
    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfig(Answer, frozen=True, kw_only=True):
    """GET /jobs/:id/checkpoints/config; times in milliseconds. What Spark lacks is off."""

    mode: str = "exactly_once"
    interval: int = 0
    """Always 0: Spark makes a checkpoint with every batch, in no fixed interval."""
    timeout: int = 0
    min_pause: int = 0
    max_concurrent: int = 1
    externalization: CheckpointExternalization
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool = False
    tolerable_failed_checkpoints: int = 0
    aligned_checkpoint_timeout: int = 0
    checkpoints_after_tasks_finish: bool = False
    state_changelog_enabled: bool = False
    changelog_periodic_materialization_interval: int = 0
    changelog_storage: str = "none"

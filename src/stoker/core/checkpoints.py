"""What is told of a streaming job's checkpoints and savepoints."""

from enum import StrEnum

from stoker.core.ids import RegionId
from stoker.core.values import Millis, Value


class BatchFigures(Value):
    """A batch that a streaming query has committed: a checkpoint, with what it cost."""

    batch_id: int
    at: Millis = 0
    """When the batch began."""
    rows: int = 0
    duration_ms: int = 0
    phases: dict[str, int] = {}
    """Milliseconds by Spark's names: addBatch, walCommit, commitOffsets, queryPlanning, …"""
    state_rows: int = 0
    state_bytes: int = 0
    watermark: str | None = None
    offsets: dict[str, str] = {}
    """Where each source stood after the batch, by the source's description."""


class CheckpointStatus(StrEnum):
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class CheckpointKind(StrEnum):
    CHECKPOINT = "CHECKPOINT"
    SAVEPOINT = "SAVEPOINT"
    STOP_SAVEPOINT = "STOP_SAVEPOINT"


class CheckpointEntry(Value):
    """A committed batch of one region, or a savepoint of the whole job."""

    id: int
    kind: CheckpointKind
    status: CheckpointStatus
    at: Millis
    ended_at: Millis | None = None
    region: RegionId | None = None
    figures: BatchFigures | None = None
    path: str | None = None
    """Of a savepoint."""
    size_bytes: int = 0
    failure: str | None = None


class RestoredFrom(Value):
    path: str
    at: Millis
    kind: CheckpointKind = CheckpointKind.SAVEPOINT
    batches: dict[str, int] = {}
    """Region to the last batch that is in it."""


class CheckpointCounts(Value):
    total: int = 0
    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    restored: int = 0


class Checkpoints(Value):
    """Of one job, in bounded memory; newest first."""

    counts: CheckpointCounts = CheckpointCounts()
    history: tuple[CheckpointEntry, ...] = ()
    latest_completed: CheckpointEntry | None = None
    latest_savepoint: CheckpointEntry | None = None
    latest_failed: CheckpointEntry | None = None
    restored: RestoredFrom | None = None
    retained: CheckpointEntry | None = None
    """Of a job that has ended: its last checkpoint, when that was kept."""


class SavepointRequest(Value):
    """What is wanted of a running job."""

    directory: str | None = None
    """Where it goes; None means the configured directory."""
    stop: bool = False
    """All queries end at a batch boundary, and the job finishes when the savepoint is there."""
    cancel: bool = False
    """The job is cancelled when the savepoint is there."""
    limit_seconds: float | None = None
    """For the batch boundary of a stop; None means the configured one."""
    savepoint_id: str | None = None
    """Ends the name of its directory; None means a random one."""


class SavepointTaken(Value):
    path: str
    size_bytes: int = 0
    files: int = 0
    batches: dict[str, int] = {}


class SavepointSummary(Value):
    """What a listing shows of one savepoint."""

    path: str
    job_id: str
    job_name: str
    created_at: Millis
    kind: str
    size_bytes: int
    batches: dict[str, int] = {}
    damage: str | None = None
    """Why it cannot be used, if its manifest cannot be read."""

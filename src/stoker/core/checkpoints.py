"""Records about the checkpoints and savepoints of a streaming job."""

from enum import StrEnum

from stoker.core.ids import RegionId
from stoker.core.values import Millis, Value


class BatchFigures(Value):
    """The figures of a committed batch of a streaming query, which is a checkpoint."""

    batch_id: int
    at: Millis = 0
    """Start of the batch."""
    rows: int = 0
    duration_ms: int = 0
    phases: dict[str, int] = {}
    """Milliseconds by Spark's names: addBatch, walCommit, commitOffsets, queryPlanning, …"""
    state_rows: int = 0
    state_bytes: int = 0
    watermark: str | None = None
    input_rows_per_second: float | None = None
    """Rows that arrived for the batch, by the time since the batch before."""
    backlog: int | None = None
    """Positions between the end of the batch and the newest that the sources knew of, in their
    units; None if a source does not tell it."""
    offsets: dict[str, str] = {}
    """Position of each source after the batch, by the description of the source."""


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
    """Location of a savepoint; None for a checkpoint."""
    size_bytes: int = 0
    failure: str | None = None


class RestoredFrom(Value):
    path: str
    at: Millis
    kind: CheckpointKind = CheckpointKind.SAVEPOINT
    batches: dict[str, int] = {}
    """The last batch that the savepoint or checkpoint contains, by region."""


class CheckpointCounts(Value):
    total: int = 0
    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    restored: int = 0


class Checkpoints(Value):
    """The latest checkpoints and savepoints of one job, newest first."""

    counts: CheckpointCounts = CheckpointCounts()
    history: tuple[CheckpointEntry, ...] = ()
    latest_completed: CheckpointEntry | None = None
    latest_savepoint: CheckpointEntry | None = None
    latest_failed: CheckpointEntry | None = None
    restored: RestoredFrom | None = None
    retained: CheckpointEntry | None = None
    """The last checkpoint of a job that has ended, if it was kept."""


class SavepointRequest(Value):
    """A savepoint that is requested of a running job."""

    directory: str | None = None
    """Directory or URL for it; None means the configured one."""
    stop: bool = False
    """End all queries at a batch boundary; the job finishes when the savepoint is complete."""
    cancel: bool = False
    """Cancel the job when the savepoint is complete."""
    limit_seconds: float | None = None
    """Time for a stop to reach the batch boundaries; None means the configured one."""
    savepoint_id: str | None = None
    """Suffix of the name of its directory; None means a random one."""


class SavepointTaken(Value):
    path: str
    size_bytes: int = 0
    files: int = 0
    batches: dict[str, int] = {}


class SavepointSummary(Value):
    """A savepoint in a listing."""

    path: str
    job_id: str
    job_name: str
    created_at: Millis
    kind: str
    size_bytes: int
    batches: dict[str, int] = {}
    expires: bool = False
    """Whether the cluster deletes the savepoint when newer ones replace it, or by its age."""
    damage: str | None = None
    """Why the savepoint cannot be used; None if its manifest can be read."""
    owner: str = ""
    """Owner of the job of which it was taken; empty if that is not known."""

"""The replacement of a running job by another version of it, as an operation of the cluster."""

from enum import StrEnum

from stoker.core.graph import JobGraph
from stoker.core.ids import JobId
from stoker.core.values import Millis, Value


class ReplacementKind(StrEnum):
    UPGRADE = "upgrade"
    """The new version has another graph."""
    RESCALE = "rescale"
    """The new version has the same graph, with its state in another number of partitions."""


class ReplacementPhase(StrEnum):
    STOPPING = "STOPPING"
    """The old version is being stopped with a savepoint."""
    DIVIDING = "DIVIDING"
    """The state in the savepoint is being repartitioned."""
    STARTING = "STARTING"
    """The new version is being submitted."""
    WATCHING = "WATCHING"
    """The new version must run without a failure for the trial window."""
    ENDING = "ENDING"
    """The new version failed its trial window and is being cancelled."""
    RETURNING = "RETURNING"
    """The old version is being submitted again."""
    DONE = "DONE"
    """The new version has replaced the old one."""
    ROLLED_BACK = "ROLLED_BACK"
    """The old version continues, under another id."""
    FAILED = "FAILED"
    """The replacement failed without a rollback; `reason` says what became of the job."""

    @property
    def over(self) -> bool:
        return self in (
            ReplacementPhase.DONE,
            ReplacementPhase.ROLLED_BACK,
            ReplacementPhase.FAILED,
        )


class ReplacementRequest(Value):
    job_id: JobId
    trigger_id: str
    kind: ReplacementKind
    graph: JobGraph | None = None
    """Upgrade: the new version's graph, with its id."""
    partitions: int | None = None
    """Rescale: number of state partitions of the new version."""
    directory: str | None = None
    """Directory for the savepoint; None means the configured one."""
    allow_non_restored_state: bool = False
    window_seconds: float = 30.0


class Replacement(Value):
    """The record of a replacement: its plan, and its present phase."""

    job_id: JobId
    """The old version."""
    trigger_id: str
    kind: ReplacementKind
    digest: str
    """Digest of the request: a request with the same trigger id must be the same request."""
    new_id: JobId
    back_id: JobId
    """Id of the old version if it is submitted again. Both ids are chosen in advance, so that a
    submission can be repeated: a job with the same id is the same job."""
    directory: str
    order: str
    """Suffix of the name of the savepoint that stops the old version."""
    began: Millis
    changed: Millis
    phase: ReplacementPhase = ReplacementPhase.STOPPING
    pointer: str | None = None
    """Upgrade: path of the new version's graph in the storage."""
    partitions: int | None = None
    allow_non_restored_state: bool = False
    window_seconds: float = 30.0
    savepoint: str | None = None
    """The savepoint that stopped the old version."""
    origin: str | None = None
    """What the version to be started restores instead of `savepoint`: its repartitioned copy, or
    the retained checkpoint of the new version."""
    reason: str = ""
    """Why the new version does not run, or no longer runs."""
    owner: str = ""
    """Owner of the old version, who owns its successors too."""

    @property
    def stop_path(self) -> str:
        return f"{self.directory.rstrip('/')}/savepoint-{self.job_id[:6]}-{self.order}"

    @property
    def running_id(self) -> JobId:
        """Id of the version that stands for the job; until a replacement is over, the old one."""
        if self.phase is ReplacementPhase.ROLLED_BACK:
            return self.back_id
        if self.phase is ReplacementPhase.DONE:
            return self.new_id
        return self.job_id

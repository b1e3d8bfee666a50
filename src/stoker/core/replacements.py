"""A running job replaced by another version of it, as one operation of the cluster."""

from enum import StrEnum

from stoker.core.graph import (
    JobGraph,
)
from stoker.core.ids import JobId
from stoker.core.values import Millis, Value


class ReplacementKind(StrEnum):
    UPGRADE = "upgrade"
    """By another graph."""
    RESCALE = "rescale"
    """By the same graph, with its state divided into another number of partitions."""


class ReplacementPhase(StrEnum):
    STOPPING = "STOPPING"
    """The old version is stopped with a savepoint."""
    DIVIDING = "DIVIDING"
    """The state in the savepoint is divided anew."""
    STARTING = "STARTING"
    """The new version is handed in."""
    WATCHING = "WATCHING"
    """The new version has to run for a while without a failure."""
    ENDING = "ENDING"
    """The new version failed its trial window and is being cancelled."""
    RETURNING = "RETURNING"
    """The old version is handed in again."""
    DONE = "DONE"
    """The new version has the place of the old one."""
    ROLLED_BACK = "ROLLED_BACK"
    """The old version goes on, under another id."""
    FAILED = "FAILED"
    """Nothing was replaced; `reason` tells what became of the job."""

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
    """Of an upgrade; its id is the one of the new version."""
    partitions: int | None = None
    """Of a rescale."""
    directory: str | None = None
    """For the savepoint; None means the configured one."""
    allow_non_restored_state: bool = False
    window_seconds: float = 30.0


class Replacement(Value):
    """The plan, and how far it is."""

    job_id: JobId
    """The old version."""
    trigger_id: str
    kind: ReplacementKind
    digest: str
    """Of the request: the same trigger id again must mean the same."""
    new_id: JobId
    back_id: JobId
    """Of the old version, if it has to go on. Both are chosen beforehand: handed in again, a job
    of the same id is the same job."""
    directory: str
    order: str
    """Ends the name of the savepoint with which the old version is being stopped."""
    began: Millis
    changed: Millis
    phase: ReplacementPhase = ReplacementPhase.STOPPING
    pointer: str | None = None
    """Path in the storage of the new version's graph, of an upgrade."""
    partitions: int | None = None
    allow_non_restored_state: bool = False
    window_seconds: float = 30.0
    savepoint: str | None = None
    """Where the old version was stopped."""
    origin: str | None = None
    """What the version that is being started begins from, if not that savepoint."""
    reason: str = ""
    """Why the new version is not, or not any more, the one that runs."""

    @property
    def stop_path(self) -> str:
        return f"{self.directory.rstrip('/')}/savepoint-{self.job_id[:6]}-{self.order}"

    @property
    def running_id(self) -> JobId:
        """The job that stands for the old one now."""
        if self.phase is ReplacementPhase.ROLLED_BACK:
            return self.back_id
        if self.phase is ReplacementPhase.DONE:
            return self.new_id
        return self.job_id

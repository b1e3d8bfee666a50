"""What server-sent events carry. Flink has no such thing, so the words are Stoker's."""

from stoker.api.shape import Dashed
from stoker.core.ids import JobId, RegionId
from stoker.core.states import ExecutionState, JobStatus


class ClusterEvent(Dashed, frozen=True, kw_only=True):
    taskmanagers: int
    slots_total: int
    slots_available: int
    jobs_running: int
    jobs_finished: int
    jobs_cancelled: int
    jobs_failed: int


class JobEvent(Dashed, frozen=True, kw_only=True):
    """A job is new, or something about it has changed."""

    jid: JobId
    name: str
    state: JobStatus
    last_modification: int
    tasks: dict[str, int]


class JobProgressEvent(Dashed, frozen=True, kw_only=True):
    jid: JobId
    name: str
    state: JobStatus
    waiting: str | None
    """Why it waits, in words."""
    regions: dict[RegionId, ExecutionState]
    tasks_total: int
    tasks_done: int
    batches: int
    failures: int

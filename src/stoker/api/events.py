"""Answers about the event log, and the messages of the event stream.

Flink has nothing like them, so the field names are Stoker's own.
"""

from stoker.api.shape import Answer, Dashed
from stoker.core.ids import JobId, RegionId
from stoker.core.states import ExecutionState, JobStatus
from stoker.core.values import Millis


class EventAnswer(Dashed, frozen=True, kw_only=True):
    """An event of the log; also the message `log` of the stream."""

    id: str
    """Epoch and number, as in 7-42. Ids grow over every change of the leader."""
    time: Millis
    kind: str
    text: str
    """What happened, in plain words."""
    job: JobId | None = None
    """The job that the event is about; None for an event of the cluster."""
    job_name: str = ""
    owner: str = ""
    data: dict[str, str | int | float | bool | None] = {}


class EventGapAnswer(Dashed, frozen=True, kw_only=True):
    """Events that existed and cannot be shown; also the message `gap` of the stream."""

    topic: str = "log"
    """`jobs`: the reader was too slow for the changes; the present state follows."""
    after: str | None = None
    before: str | None = None
    """Ids of the events around the gap."""
    reason: str = ""
    """`dropped`: never written; `forgotten`: too old; `unreadable`: their file is damaged;
    `slow-reader`."""
    missing: int | None = None
    """How many events; None where that is not known."""


class EventsAnswer(Answer, frozen=True, kw_only=True):
    """GET /events/log"""

    events: list[EventAnswer]
    gaps: list[EventGapAnswer] = []
    """What is missing among the events that were searched for this answer."""
    next: str | None = None
    """Mark of the next page; None after the last one. A page may be empty and not be the last."""
    last: str | None = None
    """Id of the newest event in the log: what to follow it from."""


class StreamStart(Dashed, frozen=True, kw_only=True):
    """The message `hello`: the first one of a stream, and again when another master leads."""

    server_time: Millis
    epoch: int | None
    """Epoch of the leader; None while that is not known."""
    leader: str | None
    """Base URL of the leader's REST server, if it is known."""
    topics: list[str]
    last: str | None = None
    """With the topic log: id of the newest event."""


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
    """Why the job waits, as text; None when it does not wait."""
    regions: dict[RegionId, ExecutionState]
    tasks_total: int
    tasks_done: int
    batches: int
    failures: int

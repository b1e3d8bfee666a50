"""Events for tests of the log."""

from stoker.core.ids import JobId
from stoker.events.event import EventId, EventKind, LoggedEvent, Subject, make_event

JOB = JobId("a" * 32)
OTHER = JobId("b" * 32)


def event(
    epoch: int,
    number: int,
    kind: EventKind = EventKind.JOB_STARTED,
    *,
    at: int = 0,
    job: JobId | None = JOB,
    owner: str = "ana",
    text: str = "something happened",
) -> LoggedEvent:
    about = None if job is None else Subject(job, "orders", owner)
    return make_event(EventId(epoch, number), at or number, kind, text, about, {})

"""Submissions and ends of jobs that the log lacks, although the jobs' own records tell of them.

A submission does not wait for the event log. So a leader may die after it has accepted a job and
before the event of that is written. The next leader compares the records of jobs with the log and
adds what is missing. Pure.

The log carries a time before which nothing is missing, so that only a few events are compared. It
stands still while events are dropped.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from stoker.core.states import JobStatus
from stoker.core.values import Millis
from stoker.events.event import EventKind, LoggedEvent, Subject

CLOCK_MARGIN: Millis = 5 * 60 * 1000
"""How far the clocks of two masters may differ."""
MAX_MISSING = 2000
"""Most events that are added at once, the newest of them; a new log begins with so many."""

END_KINDS: Mapping[JobStatus, EventKind] = {
    JobStatus.FINISHED: EventKind.JOB_FINISHED,
    JobStatus.FAILED: EventKind.JOB_FAILED,
    JobStatus.CANCELED: EventKind.JOB_CANCELLED,
}


@dataclass(frozen=True, kw_only=True)
class JobFacts:
    """What the records of a job tell."""

    about: Subject
    submitted_at: Millis
    status: JobStatus | None = None
    """How the job ended; None while it has not."""
    ended_at: Millis = 0


@dataclass(frozen=True, kw_only=True)
class MissingEvent:
    at: Millis
    kind: EventKind
    about: Subject
    text: str


def missing_events(
    jobs: Iterable[JobFacts], logged: Iterable[LoggedEvent], *, settled: Millis
) -> list[MissingEvent]:
    """The events to add, in the order of their times."""
    known = {(event.job, event.kind) for event in logged}
    found = [
        event
        for job in jobs
        for event in _events_of(job)
        if event.at >= settled - CLOCK_MARGIN and (job.about.job, event.kind) not in known
    ]
    # The sort is stable: a submission stays before an end at the same millisecond.
    return sorted(found, key=lambda event: event.at)[-MAX_MISSING:]


def _events_of(job: JobFacts) -> Iterator[MissingEvent]:
    yield MissingEvent(
        at=job.submitted_at, kind=EventKind.JOB_SUBMITTED, about=job.about, text="submitted"
    )
    if job.status is not None:
        yield MissingEvent(
            at=job.ended_at,
            kind=END_KINDS[job.status],
            about=job.about,
            text=f"ended as {job.status}",
        )

"""An event: something that happened in the cluster, numbered, and told in plain words.

Ids grow over every change of the leader: the epoch comes first, then the number within it, which
the leader gives out without a hole. So a hole between two numbers of one epoch is an event that was
dropped, and no stored list of losses is needed.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Self

import msgspec

from stoker.core.errors import InvalidInput
from stoker.core.ids import JobId
from stoker.core.values import Millis, Value

MAX_TEXT = 1000
"""Longer texts are cut, so that no job fills the log with its name or its failure."""
MAX_NAME = 200
MAX_FIELDS = 100
"""Most entries of an event's data."""


class EventId(NamedTuple):
    """Ordered like the events themselves."""

    epoch: int
    number: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises InvalidInput for a text that `str` never makes."""
        epoch, dash, number = text.partition("-")
        if not (dash and _is_number(epoch) and _is_number(number)):
            raise InvalidInput(
                f"{text[:100]!r} is not the id of an event; ids look like 7-42 and stand in the "
                "answers of GET /events/log"
            )
        return cls(int(epoch), int(number))

    def __str__(self) -> str:
        return f"{self.epoch}-{self.number}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


START = EventId(0, 0)
"""Before every event: numbers begin with 1."""


class EventKind(StrEnum):
    """What happened. A reader may meet kinds that it does not know, of a newer release."""

    JOB_SUBMITTED = "job-submitted"
    JOB_QUEUED = "job-queued"
    JOB_STARTED = "job-started"
    JOB_TAKEN_OVER = "job-taken-over"
    JOB_RESTARTING = "job-restarting"
    JOB_FINISHED = "job-finished"
    JOB_FAILED = "job-failed"
    JOB_CANCELLED = "job-cancelled"
    JOB_QUARANTINED = "job-quarantined"
    JOB_RELEASED = "job-released"
    SAVEPOINT_BEGUN = "savepoint-begun"
    SAVEPOINT_COMPLETED = "savepoint-completed"
    SAVEPOINT_FAILED = "savepoint-failed"
    SAVEPOINT_DISPOSED = "savepoint-disposed"
    UPGRADE = "upgrade"
    RESCALE = "rescale"
    EXECUTOR_REGISTERED = "executor-registered"
    EXECUTOR_DRAINING = "executor-draining"
    EXECUTOR_LOST = "executor-lost"
    LEADER_CHANGED = "leader-changed"
    LEADER_RECOVERED = "leader-recovered"
    TOKENS_CHANGED = "tokens-changed"
    CONFIGURATION_CHANGED = "configuration-changed"
    EVENTS_DROPPED = "events-dropped"


ENDS = frozenset({EventKind.JOB_FINISHED, EventKind.JOB_FAILED, EventKind.JOB_CANCELLED})

Data = Mapping[str, str | int | float | bool | None]


class Subject(NamedTuple):
    """The job that an event is about."""

    job: JobId
    name: str = ""
    owner: str = ""


class LoggedEvent(Value):
    epoch: int
    number: int
    at: Millis
    kind: str
    text: str
    """What happened, as a sentence without the name of the job."""
    job: JobId | None = None
    job_name: str = ""
    owner: str = ""
    """Owner of the job; empty for events of the cluster."""
    data: dict[str, str | int | float | bool | None] = {}

    @property
    def id(self) -> EventId:
        return EventId(self.epoch, self.number)


def make_event(
    event_id: EventId, at: Millis, kind: EventKind, text: str, about: Subject | None, data: Data
) -> LoggedEvent:
    """An event of limited size, whatever its texts are."""
    return LoggedEvent(
        epoch=event_id.epoch,
        number=event_id.number,
        at=at,
        kind=kind.value,
        text=_cut(" ".join(text.split()), MAX_TEXT),
        job=None if about is None else about.job,
        job_name="" if about is None else _cut(about.name, MAX_NAME),
        owner="" if about is None else _cut(about.owner, MAX_NAME),
        data={
            _cut(name, MAX_NAME): _cut(value, MAX_TEXT) if isinstance(value, str) else value
            for name, value in list(data.items())[:MAX_FIELDS]
        },
    )


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


class GapReason(StrEnum):
    DROPPED = "dropped"
    """The events were never written: the storage or the coordinator was away or full."""
    FORGOTTEN = "forgotten"
    """The events were removed by age, count or size."""
    UNREADABLE = "unreadable"
    """The file of the events is missing or damaged."""


class EventGap(Value):
    """Events that existed between two ids and cannot be shown."""

    after: str
    before: str
    reason: GapReason
    missing: int | None = None
    """How many events; None where that is not known."""


def gaps_between(before: EventId, events: Sequence[LoggedEvent]) -> Iterator[EventGap]:
    """Pure. Holes in the numbers of events that follow each other in the log, oldest first.

    `before` is the event before the first one; START if there is none.
    """
    for event in events:
        here = event.id
        expected = before.number + 1 if here.epoch == before.epoch else 1
        if here.number > expected:
            yield EventGap(
                after=str(before),
                before=str(here),
                reason=GapReason.DROPPED,
                missing=here.number - expected,
            )
        before = here


def encoded_size(events: Sequence[LoggedEvent]) -> int:
    return len(msgspec.json.encode(events))

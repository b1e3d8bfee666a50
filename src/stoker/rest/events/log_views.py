"""Events of the log as answers and as messages of the stream."""

from typing import NamedTuple

from stoker.api.events import EventAnswer, EventGapAnswer, EventsAnswer
from stoker.events.event import EventGap, EventId, LoggedEvent
from stoker.events.query import EventPage
from stoker.rest.events.feed import encode_event


def event_view(event: LoggedEvent) -> EventAnswer:
    return EventAnswer(
        id=str(event.id),
        time=event.at,
        kind=event.kind,
        text=event.text,
        job=event.job,
        job_name=event.job_name,
        owner=event.owner,
        data=event.data,
    )


def gap_view(gap: EventGap) -> EventGapAnswer:
    return EventGapAnswer(
        after=gap.after, before=gap.before, reason=gap.reason.value, missing=gap.missing
    )


def page_view(page: EventPage) -> EventsAnswer:
    return EventsAnswer(
        events=[event_view(event) for event in page.events],
        gaps=[gap_view(gap) for gap in page.gaps],
        next=None if page.mark is None else str(page.mark),
        last=None if page.last is None else str(page.last),
    )


class LogMessage(NamedTuple):
    """A message of the topic log, and who may see it."""

    position: EventId
    owner: str | None
    """Owner of the job, empty for the cluster; None for a gap, which everybody is told."""
    content: bytes


def messages_of(page: EventPage) -> list[LogMessage]:
    """The messages of a page that is oldest first, each gap before the event behind it."""
    gaps = [
        LogMessage(EventId.parse(gap.before), None, encode_event("gap", gap_view(gap)))
        for gap in page.gaps
    ]
    events = [
        LogMessage(
            event.id, event.owner, encode_event("log", event_view(event), event_id=str(event.id))
        )
        for event in page.events
    ]
    return sorted([*gaps, *events], key=lambda each: (each.position, each.owner is not None))

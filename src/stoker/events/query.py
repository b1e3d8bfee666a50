"""Questions about the event log, and how they are answered from parts of it. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from stoker.core.ids import JobId
from stoker.core.values import Millis, Value
from stoker.events.event import (
    START,
    EventGap,
    EventId,
    GapReason,
    LoggedEvent,
    gaps_between,
)
from stoker.events.layout import EventSegment, LogState

MAX_LIMIT = 1000
MAX_SEGMENTS_READ = 40
"""Segments that one question reads. The page mark of the answer leads to the others."""


class EventQuery(Value):
    kinds: tuple[str, ...] = ()
    """Empty for all kinds."""
    job: JobId | None = None
    owner: str | None = None
    since: Millis | None = None
    until: Millis | None = None
    """Events before this time."""
    after: EventId | None = None
    """Events behind this one only."""
    mark: EventId | None = None
    """Continue an earlier answer, which ended with this event."""
    oldest_first: bool = False
    limit: int = 100

    def wants(self, event: LoggedEvent) -> bool:
        return (
            (not self.kinds or event.kind in self.kinds)
            and self.job in (None, event.job)
            and self.owner in (None, event.owner)
            and (self.since is None or event.at >= self.since)
            and (self.until is None or event.at < self.until)
        )

    def is_in_range(self, event_id: EventId) -> bool:
        if self.after is not None and event_id <= self.after:
            return False
        if self.mark is None:
            return True
        return event_id > self.mark if self.oldest_first else event_id < self.mark


class EventPage(Value):
    events: tuple[LoggedEvent, ...] = ()
    gaps: tuple[EventGap, ...] = ()
    """What is missing among the events that were looked at, whoever they were about."""
    mark: EventId | None = None
    """Where the next page continues; None after the last one."""
    last: EventId | None = None
    """The newest event in the log."""


@dataclass(frozen=True, kw_only=True)
class LogPart:
    """A segment, or the recent events."""

    segment: EventSegment | None
    """None for the recent events."""
    first: EventId
    last: EventId
    before: EventId
    """The last event of the part before this one."""


class ReadPart(Protocol):
    async def __call__(self, part: LogPart) -> Sequence[LoggedEvent] | None:
        """None when the events cannot be read."""
        ...


def parts_of(state: LogState) -> list[LogPart]:
    """All parts, oldest first."""
    parts: list[LogPart] = []
    before = state.index.forgotten or START
    for segment in state.index.segments:
        parts.append(
            LogPart(segment=segment, first=segment.first, last=segment.last, before=before)
        )
        before = segment.last
    if state.recent:
        first, last = state.recent[0].id, state.recent[-1].id
        parts.append(LogPart(segment=None, first=first, last=last, before=before))
    return parts


def parts_for(query: EventQuery, state: LogState) -> list[LogPart]:
    """The parts that may hold an answer, in the order of the query."""
    found = [part for part in parts_of(state) if _may_answer(part, query)]
    return found if query.oldest_first else found[::-1]


def _may_answer(part: LogPart, query: EventQuery) -> bool:
    if query.after is not None and part.last <= query.after:
        return False
    if query.mark is not None:
        is_behind = part.last > query.mark if query.oldest_first else part.first < query.mark
        if not is_behind:
            return False
    segment = part.segment
    if segment is None:
        return True
    is_too_old = query.since is not None and segment.until < query.since
    is_too_new = query.until is not None and segment.since >= query.until
    return not (is_too_old or is_too_new)


def forgotten_gap(query: EventQuery, state: LogState) -> Iterator[EventGap]:
    """The gap of a reader that continues behind an event which was removed meanwhile."""
    forgotten = state.index.forgotten
    begin = query.mark if query.oldest_first and query.mark is not None else query.after
    if begin is not None and forgotten is not None and begin < forgotten:
        yield EventGap(after=str(begin), before=str(forgotten), reason=GapReason.FORGOTTEN)


@dataclass
class PageBuilder:
    """Collects the events of one page, part by part, in the order of the query."""

    query: EventQuery
    events: list[LoggedEvent] = field(default_factory=list)
    gaps: list[EventGap] = field(default_factory=list)
    mark: EventId | None = None

    @property
    def is_full(self) -> bool:
        return len(self.events) >= self.query.limit

    def add(self, part: LogPart, events: Sequence[LoggedEvent] | None) -> None:
        if events is None:
            self._add_unreadable(part)
            return
        gaps = {gap.before: gap for gap in gaps_between(part.before, events)}
        for event in events if self.query.oldest_first else reversed(events):
            if not self.query.is_in_range(event.id):
                continue
            if self.is_full:
                return
            self.mark = event.id
            if (gap := gaps.get(str(event.id))) is not None:
                self.gaps.append(gap)
            if self.query.wants(event):
                self.events.append(event)

    def _add_unreadable(self, part: LogPart) -> None:
        assert part.segment is not None
        self.mark = part.last if self.query.oldest_first else part.first
        self.gaps.append(
            EventGap(
                after=str(part.before),
                before=str(part.last),
                reason=GapReason.UNREADABLE,
                missing=part.segment.events,
            )
        )

    def page(self, *, has_more: bool, last: EventId) -> EventPage:
        return EventPage(
            events=tuple(self.events),
            gaps=tuple(self.gaps),
            mark=self.mark if has_more else None,
            last=None if last == START else last,
        )


async def answer(query: EventQuery, state: LogState, read: ReadPart) -> EventPage:
    """Read as many parts as it takes, but no more than a limit."""
    page = PageBuilder(query)
    page.gaps.extend(forgotten_gap(query, state))
    parts = parts_for(query, state)
    read_segments = 0
    for place, part in enumerate(parts):
        if page.is_full or read_segments >= MAX_SEGMENTS_READ:
            return page.page(has_more=True, last=state.last)
        page.add(part, await read(part))
        read_segments += part.segment is not None
        if page.is_full:
            at_end = part.last if query.oldest_first else part.first
            has_more = page.mark != at_end or place < len(parts) - 1
            return page.page(has_more=has_more, last=state.last)
    return page.page(has_more=False, last=state.last)

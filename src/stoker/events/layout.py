"""How the event log is laid out: recent events at the coordinator, older ones in segments.

Pure. The newest events are in one small record. When it grows beyond its limit, all of them go into
a segment, a file in the storage, and the record begins anew. The index, another record, points to
the segments. So a write costs as much as the recent events have bytes, whatever the log has kept,
and both records stay small.

Invariant: the ids of all events, from the first segment to the last recent event, grow strictly.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from stoker.core.values import Millis, Value
from stoker.events.event import START, EventId, LoggedEvent, encoded_size
from stoker.events.options import EventOptions
from stoker.ha.record import StoredRecord

RECENT_BYTES = 64 * 1024
"""Recent events beyond this size go into a segment."""
MOST_RECENT_BYTES = 256 * 1024
"""Limit while the storage is away and no segment can be written."""
MAX_SEGMENTS = 1500
"""Limit of the index, which is one record."""


class EventSegment(Value):
    """A file of events that follow each other."""

    path: str
    first: EventId
    last: EventId
    events: int
    size: int
    since: Millis
    """Earliest and latest time of its events; clocks may jump, so not those of first and last."""
    until: Millis


class RecentEvents(StoredRecord, frozen=True, kw_only=True):
    """Value of `events/recent`."""

    events: tuple[LoggedEvent, ...] = ()
    settled: Millis = 0
    """Every job that was submitted or ended before this time has the events of that on record."""
    nonce: str = ""
    """Differs with each write, so that a write whose outcome is unknown is recognized."""


class EventIndex(StoredRecord, frozen=True, kw_only=True):
    """Value of `events/index`."""

    segments: tuple[EventSegment, ...] = ()
    """Oldest first."""
    forgotten: EventId | None = None
    """The newest event that was removed by age, count or size."""


class SegmentContent(StoredRecord, frozen=True, kw_only=True):
    """Content of the file of a segment."""

    events: tuple[LoggedEvent, ...]


@dataclass(frozen=True, kw_only=True)
class LogState:
    recent: tuple[LoggedEvent, ...] = ()
    settled: Millis = 0
    index: EventIndex = EventIndex()

    @property
    def last(self) -> EventId:
        """Id of the newest event; START without one."""
        if self.recent:
            return self.recent[-1].id
        if self.index.segments:
            return self.index.segments[-1].last
        return self.index.forgotten or START

    def with_recent(self, events: Iterable[LoggedEvent]) -> "LogState":
        """The new events behind the others; those that the log has already are left out."""
        last = self.last
        return replace(self, recent=(*self.recent, *(each for each in events if each.id > last)))

    @property
    def is_due_for_a_segment(self) -> bool:
        return encoded_size(self.recent) > RECENT_BYTES

    @property
    def is_too_large(self) -> bool:
        """Whether the recent events fit in their record no more."""
        return encoded_size(self.recent) > MOST_RECENT_BYTES

    def with_segment(self, path: str, size: int) -> "LogState":
        """The recent events have become the segment at this path."""
        times = [event.at for event in self.recent]
        segment = EventSegment(
            path=path,
            first=self.recent[0].id,
            last=self.recent[-1].id,
            events=len(self.recent),
            size=size,
            since=min(times),
            until=max(times),
        )
        index = EventIndex(segments=(*self.index.segments, segment), forgotten=self.index.forgotten)
        return replace(self, recent=(), index=index)

    def without_old(self, now: Millis, options: EventOptions) -> "LogState":
        """Without the segments beyond age, count or size; recent events always stay."""
        segments = self.index.segments
        kept = segments[_first_to_keep(segments, len(self.recent), now, options) :]
        removed = segments[: len(segments) - len(kept)]
        if not removed:
            return self
        return replace(self, index=EventIndex(segments=kept, forgotten=removed[-1].last))


def _first_to_keep(
    segments: Sequence[EventSegment], recent: int, now: Millis, options: EventOptions
) -> int:
    oldest = now - options.max_age.total_seconds() * 1000
    count, size = recent, 0
    for place in range(len(segments) - 1, -1, -1):
        segment = segments[place]
        count, size = count + segment.events, size + segment.size
        if (
            segment.until < oldest
            or count > options.max_count
            or size > options.max_size
            or len(segments) - place > MAX_SEGMENTS
        ):
            return place + 1
    return 0


def index_of(found: Iterable[EventSegment]) -> EventIndex:
    """An index for segments whose own index was lost.

    A leader that died between its two writes leaves a file whose events stand in the next segment
    too; of segments that overlap, the longest counts.
    """
    segments: list[EventSegment] = []
    for segment in sorted(found, key=lambda each: (each.first, -each.events)):
        if not segments or segment.first > segments[-1].last:
            segments.append(segment)
    return EventIndex(segments=tuple(segments))

"""Questions about the log, over every division of it into segments."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from stoker.events import query as module
from stoker.events.event import EventGap, EventId, EventKind, GapReason, LoggedEvent
from stoker.events.layout import LogState
from stoker.events.query import EventPage, EventQuery, LogPart, answer
from unit.events.logged import JOB, OTHER, event


class StoredLog:
    """A log whose segments are in memory; those whose paths are in `lost` cannot be read."""

    def __init__(self, pieces: Sequence[Sequence[LoggedEvent]]) -> None:
        self.content: dict[str, Sequence[LoggedEvent]] = {}
        self.lost: set[str] = set()
        self.reads = 0
        self.state = LogState()
        for number, piece in enumerate(pieces):
            self.state = self.state.with_recent(piece)
            if piece and number < len(pieces) - 1:
                self.content[f"events/{number}"] = self.state.recent
                self.state = self.state.with_segment(f"events/{number}", 1)

    async def read(self, part: LogPart) -> Sequence[LoggedEvent] | None:
        if part.segment is None:
            return self.state.recent
        self.reads += 1
        return None if part.segment.path in self.lost else self.content[part.segment.path]

    def ask(self, query: EventQuery) -> EventPage:
        return asyncio.run(answer(query, self.state, self.read))

    def ask_all(self, query: EventQuery) -> list[EventPage]:
        pages = [self.ask(query)]
        while pages[-1].mark is not None:
            changed = {name: getattr(query, name) for name in EventQuery.__struct_fields__} | {
                "mark": pages[-1].mark
            }
            pages.append(self.ask(EventQuery(**changed)))
        return pages


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[list[LoggedEvent]], list[LoggedEvent]]:
    events: list[LoggedEvent] = []
    for epoch in range(1, draw(st.integers(1, 4))):
        number = 0
        for _ in range(draw(st.integers(0, 8))):
            number += draw(st.sampled_from([1, 1, 1, 3]))
            kind = draw(st.sampled_from([EventKind.JOB_STARTED, EventKind.JOB_FAILED]))
            job = draw(st.sampled_from([JOB, OTHER, None]))
            events.append(event(epoch, number, kind, job=job, at=draw(st.integers(1, 9))))
    cuts = sorted(draw(st.lists(st.integers(0, len(events)), max_size=5)))
    bounds = [0, *cuts, len(events)]
    return [events[a:b] for a, b in pairwise(bounds)], events


@given(logs(), st.data())
def test_the_pages_of_an_answer_hold_each_wanted_event_once_and_in_order(
    stored: tuple[list[list[LoggedEvent]], list[LoggedEvent]], data: st.DataObject
) -> None:
    pieces, events = stored
    ids = [each.id for each in events]
    query = EventQuery(
        kinds=data.draw(st.sampled_from([(), ("job-failed",)])),
        job=data.draw(st.sampled_from([None, JOB])),
        since=data.draw(st.sampled_from([None, 4])),
        until=data.draw(st.sampled_from([None, 7])),
        after=data.draw(st.sampled_from([None, *ids])),
        oldest_first=data.draw(st.booleans()),
        limit=data.draw(st.integers(1, 10)),
    )
    pages = StoredLog(pieces).ask_all(query)
    found = [each for page in pages for each in page.events]
    wanted = [
        each
        for each in events
        if query.wants(each) and (query.after is None or each.id > query.after)
    ]
    assert found == (wanted if query.oldest_first else wanted[::-1])
    assert all(len(page.events) <= query.limit for page in pages)
    assert {page.last for page in pages} == {ids[-1] if ids else None}


@given(logs(), st.booleans(), st.integers(1, 10))
def test_every_hole_is_told_once_whatever_the_pages(
    stored: tuple[list[list[LoggedEvent]], list[LoggedEvent]], oldest_first: bool, limit: int
) -> None:
    pieces, events = stored
    pages = StoredLog(pieces).ask_all(EventQuery(oldest_first=oldest_first, limit=limit))
    missing = sum(gap.missing or 0 for page in pages for gap in page.gaps)
    last = {each.epoch: each.number for each in events}
    assert missing == sum(last.values()) - len(events)


def test_a_damaged_segment_is_a_gap_and_the_others_are_shown() -> None:
    log = StoredLog([[event(1, 1), event(1, 2)], [event(1, 3)], [event(1, 4)]])
    log.lost.add("events/0")
    page = log.ask(EventQuery())
    assert [each.number for each in page.events] == [4, 3]
    assert page.gaps == (
        EventGap(after="0-0", before="1-2", reason=GapReason.UNREADABLE, missing=2),
    )


def test_a_reader_that_continues_behind_a_forgotten_event_is_told() -> None:
    log = StoredLog([[event(1, 1), event(1, 2)], [event(1, 3)], [event(1, 4)]])
    index = log.state.index
    forgotten = type(index)(segments=index.segments[1:], forgotten=EventId(1, 2))
    log.state = type(log.state)(recent=log.state.recent, index=forgotten)
    page = log.ask(EventQuery(after=EventId(1, 1), oldest_first=True))
    assert [gap.reason for gap in page.gaps] == [GapReason.FORGOTTEN]
    assert [each.number for each in page.events] == [3, 4]
    assert log.ask(EventQuery(after=EventId(1, 2), oldest_first=True)).gaps == ()


def test_one_question_reads_a_limited_number_of_segments() -> None:
    log = StoredLog([[event(1, number)] for number in range(1, 200)])
    page = log.ask(EventQuery(kinds=("no-such-kind",)))
    assert log.reads == module.MAX_SEGMENTS_READ
    assert page.mark is not None
    assert page.events == ()

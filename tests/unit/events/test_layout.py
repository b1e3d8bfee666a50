"""What goes into segments, what is forgotten, and how a lost index is made again."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import InvalidOption
from stoker.core.options import ByteSize
from stoker.events.event import START, EventId
from stoker.events.layout import MAX_SEGMENTS, EventIndex, EventSegment, LogState, index_of
from stoker.events.options import EventOptions
from unit.events.logged import event

HOUR = 3_600_000


def segment(number: int, *, events: int = 10, size: int = 1000, until: int = 0) -> EventSegment:
    first = 1 + 10 * number
    return EventSegment(
        path=f"events/{number}",
        first=EventId(1, first),
        last=EventId(1, first + events - 1),
        events=events,
        size=size,
        since=until,
        until=until,
    )


def state_of(*segments: EventSegment) -> LogState:
    return LogState(index=EventIndex(segments=segments))


def test_events_that_are_there_already_are_not_added_again() -> None:
    state = LogState().with_recent([event(1, 1), event(1, 2)])
    again = state.with_recent([event(1, 1), event(1, 2), event(1, 3)])
    assert [each.id for each in again.recent] == [(1, 1), (1, 2), (1, 3)]


def test_events_of_a_segment_are_not_added_again_either() -> None:
    state = LogState().with_recent([event(1, 1), event(1, 2)]).with_segment("events/a", 99)
    assert state.recent == ()
    assert state.last == (1, 2)
    assert state.with_recent([event(1, 2), event(2, 1)]).recent == (event(2, 1),)


@given(st.lists(st.integers(1, 40), max_size=6))
def test_ids_grow_from_the_first_segment_to_the_last_recent_event(sizes: list[int]) -> None:
    state, number = LogState(), 0
    for size in sizes:
        state = state.with_recent(event(1, number + each) for each in range(1, size + 1))
        number += size
        state = state.with_segment(f"events/{number}", size)
    ends = [end for each in state.index.segments for end in (each.first, each.last)]
    assert ends == sorted(ends)
    assert state.last == (EventId(1, number) if sizes else START)
    assert sum(each.events for each in state.index.segments) == number


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (EventOptions(), 4),
        (EventOptions(max_count=25), 2),
        (EventOptions(max_size=ByteSize(2999)), 2),
        (EventOptions(max_age=timedelta(hours=2)), 3),
        (EventOptions(max_count=1), 0),
    ],
)
def test_the_oldest_segments_beyond_a_limit_are_forgotten(options: EventOptions, kept: int) -> None:
    state = state_of(*(segment(number, until=number * HOUR) for number in range(4)))
    shorter = state.without_old(3 * HOUR, options)
    assert shorter.index.segments == state.index.segments[4 - kept :]
    expected = None if kept == 4 else state.index.segments[3 - kept].last
    assert shorter.index.forgotten == expected
    assert shorter.last == state.last


def test_the_index_stays_one_small_record() -> None:
    state = state_of(*(segment(number, size=1) for number in range(MAX_SEGMENTS + 5)))
    shorter = state.without_old(0, EventOptions(max_count=10**9))
    assert len(shorter.index.segments) == MAX_SEGMENTS


def test_an_index_that_was_lost_leaves_out_what_a_dead_leader_wrote_twice() -> None:
    shorter = segment(1, events=4)
    assert index_of([segment(2), shorter, segment(1), segment(0)]).segments == (
        segment(0),
        segment(1),
        segment(2),
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"flush_interval": timedelta(0)},
        {"flush_interval": timedelta(minutes=1)},
        {"max_age": timedelta(0)},
        {"max_count": 0},
        {"max_size": ByteSize(0)},
    ],
)
def test_options_that_keep_nothing_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidOption, match="must be more than 0"):
        EventOptions(**wrong)  # type: ignore[arg-type]

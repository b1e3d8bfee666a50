"""Ids, sizes and gaps of events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import InvalidInput
from stoker.core.ids import JobId
from stoker.events.event import (
    MAX_NAME,
    MAX_TEXT,
    START,
    EventId,
    EventKind,
    Subject,
    encoded_size,
    gaps_between,
    make_event,
)
from unit.events.logged import event

numbers = st.integers(min_value=1, max_value=10**18 - 1)


@given(numbers, numbers, numbers, numbers)
def test_ids_have_the_order_of_epochs_and_then_of_numbers(a: int, b: int, c: int, d: int) -> None:
    one, other = EventId(a, b), EventId(c, d)
    assert EventId.parse(str(one)) == one
    assert (one < other) is ((a, b) < (c, d))
    assert one > START


@pytest.mark.parametrize(
    "text", ["", "7", "7-", "-7", "7-x", "7-8-9", "\u0667-\u0668", "1-" + "9" * 30]
)
def test_a_text_that_is_no_id_is_refused_with_what_an_id_looks_like(text: str) -> None:
    with pytest.raises(InvalidInput, match="ids look like 7-42"):
        EventId.parse(text)


@given(st.text(max_size=20_000), st.dictionaries(st.text(max_size=500), st.text(max_size=5000)))
def test_an_event_stays_small_whatever_names_and_texts_it_has(
    text: str, data: dict[str, str]
) -> None:
    about = Subject(JobId("a" * 32), text, text)
    made = make_event(EventId(1, 1), 0, EventKind.JOB_FAILED, text, about, data)
    assert len(made.text) <= MAX_TEXT
    assert len(made.job_name) <= MAX_NAME
    assert "\n" not in made.text
    assert encoded_size([made]) < 1_500_000


def test_holes_in_the_numbers_are_gaps_and_a_new_epoch_is_none() -> None:
    events = [event(3, 7), event(3, 8), event(3, 11), event(4, 1), event(5, 3)]
    found = list(gaps_between(EventId(3, 6), events))
    assert [(gap.after, gap.before, gap.missing) for gap in found] == [
        ("3-8", "3-11", 2),
        ("4-1", "5-3", 2),
    ]

"""How far a stream is behind its sources."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.streams.backlog import backlog_of


def source(end: Any, newest: Any) -> dict[str, Any]:
    return {"description": "any", "endOffset": end, "latestOffset": newest}


@pytest.mark.parametrize(
    ("end", "newest", "behind"),
    [
        (3, 10, 7),
        ("3", "10", 7),
        ('{"clicks":{"0":5,"1":7}}', '{"clicks":{"0":9,"1":7}}', 4),
        ('{"clicks":{"0":5}}', '{"clicks":{"0":5,"1":3},"views":{"0":2}}', 5),
        (10, 3, 0),
        ('{"logOffset":4}', None, None),
        ("a path", "another", None),
        ('{"a":"x"}', '{"a":"y"}', None),
        ("{}", "{}", None),
        (True, True, None),
    ],
)
def test_positions_are_compared_where_the_source_tells_them(
    end: Any, newest: Any, behind: int | None
) -> None:
    assert backlog_of([source(end, newest)]) == behind


def test_sources_add_up_and_one_that_tells_nothing_hides_the_sum() -> None:
    assert backlog_of([source(1, 3), source(1, 4)]) == 5
    assert backlog_of([source(1, 3), source(1, None)]) is None
    assert backlog_of([]) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(JSON, JSON)
def test_no_position_is_an_error_and_no_backlog_is_negative(end: Any, newest: Any) -> None:
    assert (backlog_of([source(end, newest)]) or 0) >= 0

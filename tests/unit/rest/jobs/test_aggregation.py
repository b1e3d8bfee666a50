"""Aggregation of metrics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import InvalidInput
from stoker.rest.jobs.aggregation import (
    MODES,
    aggregate_metrics,
    parse_indices,
    parse_modes,
    select_metrics,
    summarize_by_name,
)


def test_without_names_the_answer_lists_only_names() -> None:
    assert [each.id for each in select_metrics({"b": "1", "a": "2"}, None)] == ["a", "b"]
    assert [each.id for each in aggregate_metrics([{"b": "1"}, {"a": "x"}], None, MODES)] == [
        "a",
        "b",
    ]


def test_unknown_names_and_values_that_are_not_numbers_are_left_out() -> None:
    assert [each.value for each in select_metrics({"a": "2"}, ("a", "z"))] == ["2"]
    assert aggregate_metrics([{"a": "x"}, {"a": "nan"}], ("a", "z"), MODES) == []


def test_metrics_are_aggregated_in_the_requested_modes() -> None:
    (joined,) = aggregate_metrics([{"a": "1"}, {"a": "3"}], ("a",), ("min", "max", "avg", "sum"))
    assert (joined.min, joined.max, joined.avg, joined.sum) == (1.0, 3.0, 2.0, 4.0)


@given(st.lists(st.integers(0, 10**12), min_size=1))
def test_a_distribution_stays_within_its_bounds(values: list[int]) -> None:
    figures = summarize_by_name({"x": value} for value in values)["x"]
    ordered = [figures[name] for name in ("min", "p25", "median", "p75", "p95", "max")]
    assert ordered == sorted(ordered)
    assert figures["sum"] == sum(values)


@given(st.lists(st.floats(0, 1e9), min_size=1))
def test_skew_is_a_percentage(values: list[float]) -> None:
    (joined,) = aggregate_metrics([{"a": str(value)} for value in values], ("a",), ("skew",))
    assert isinstance(joined.skew, float)
    assert 0 <= joined.skew <= 100


def test_subtask_indices_are_numbers_and_ranges() -> None:
    assert parse_indices("0,2,4-6") == {0, 2, 4, 5, 6}
    assert parse_indices("") is None


def test_all_modes_of_aggregation_are_meant_unless_some_are_named() -> None:
    assert parse_modes(None) == MODES
    assert parse_modes("MIN, max") == ("min", "max")
    with pytest.raises(InvalidInput, match=r"agg must be one of min, .* found 'mean'"):
        parse_modes("max,mean")


@pytest.mark.parametrize(
    "text", ["x", "1-", "-1", "0-9999999", "0-60000,0-60000", "0-999999999", "²", "1,,2"]
)
def test_invalid_subtask_indices_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="subtasks"):
        parse_indices(text)

"""Durations as users write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.durations import read_duration


def test_a_duration_longer_than_any_timedelta_is_refused() -> None:
    with pytest.raises(ValueError, match="'99999999999 d' is too long"):
        read_duration("99999999999 d")
    with pytest.raises(ValueError, match="is too long"):
        read_duration("9" * 1_000_001 + " d")


@given(st.from_regex(r"\d+(\.\d+)? ?(us|ms|s|min|h|d|x)?", fullmatch=True))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    refusal = ""
    try:
        read_duration(text)
    except ValueError as error:
        refusal = str(error)
    assert refusal == "" or text in refusal

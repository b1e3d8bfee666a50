"""Sizes as users write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.options import read_size


@given(st.integers(min_value=0))
def test_a_size_of_any_length_is_read_exactly(number: int) -> None:
    assert read_size(f"{number} kb") == number << 10


def test_a_fraction_of_a_unit_is_a_size_if_it_is_a_whole_number_of_bytes() -> None:
    assert read_size("1.5 kb") == 1536
    with pytest.raises(ValueError, match="is not a size"):
        read_size("0.1 mb")

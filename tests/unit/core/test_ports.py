"""Ports as users write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import InvalidOption
from stoker.core.ports import parse_ports


def test_a_port_a_list_and_a_range_are_understood() -> None:
    assert parse_ports("0", "x") == (range(1),)
    assert parse_ports("7-9, 20", "x") == (range(7, 10), range(20, 21))


@pytest.mark.parametrize("text", ["", "x", "80-", "-80", "90-80", "70000", "80,,81", "1-2-3", "-1"])
def test_malformed_ports_are_refused_with_the_name_of_the_option(text: str) -> None:
    with pytest.raises(InvalidOption, match=r"rest\.bind-port.* is not a port"):
        parse_ports(text, "rest.bind-port")


@given(st.lists(st.tuples(st.integers(1, 65000), st.integers(0, 500)), min_size=1))
def test_ports_are_tried_in_the_order_in_which_they_are_written(
    pairs: list[tuple[int, int]],
) -> None:
    text = ", ".join(f"{first}-{first + more}" if more else str(first) for first, more in pairs)
    ports = [port for each in parse_ports(text, "x") for port in each]
    assert ports == [port for first, more in pairs for port in range(first, first + more + 1)]

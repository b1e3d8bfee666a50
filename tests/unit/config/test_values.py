"""Text to typed value and back."""

from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.config.values import allowed, format_value, is_supported, parse
from stoker.core.options import ByteSize


class Mode(StrEnum):
    FAST = "fast"
    VERY_SAFE = "very-safe"


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (bool, "true", True),
        (bool, "False", False),
        (int, " -7 ", -7),
        (float, "1.5", 1.5),
        (str, "text", "text"),
        (Path, "/var/lib", Path("/var/lib")),
        (timedelta, "10 s", timedelta(seconds=10)),
        (timedelta, "100ms", timedelta(milliseconds=100)),
        (timedelta, "1.5 h", timedelta(minutes=90)),
        (timedelta, "5 MIN", timedelta(minutes=5)),
        (timedelta, "2 days", timedelta(days=2)),
        (ByteSize, "64 mb", 64 << 20),
        (ByteSize, "4096", 4096),
        (ByteSize, "10485760b", 10485760),
        (ByteSize, "1g", 1 << 30),
        (ByteSize, "2 GiB", 2 << 30),
        (Mode, "fast", Mode.FAST),
        (Mode, "VERY_SAFE", Mode.VERY_SAFE),
        (tuple[str, ...], "a, b,,c", ("a", "b", "c")),
        (tuple[str, ...], ["a", "b"], ("a", "b")),
        (tuple[str, ...], "", ()),
        (dict[str, str], "a:1, b:http://x", {"a": "1", "b": "http://x"}),
        (dict[str, str], {"a": "1"}, {"a": "1"}),
        (int | None, "none", None),
        (int | None, "", None),
        (int | None, "3", 3),
        (str | None, "null", None),
        (Mode | None, "fast", Mode.FAST),
    ],
)
def test_a_text_is_read_as_the_value_it_stands_for(kind: Any, text: Any, value: Any) -> None:
    read = parse(kind, text)
    assert read == value
    assert type(read) is type(value) or isinstance(read, ByteSize)


def test_a_home_folder_is_expanded() -> None:
    assert parse(Path, "~/x") == Path.home() / "x"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (bool, "yes"),
        (int, "1.5"),
        (int, "none"),
        (float, "fast"),
        (timedelta, "10"),
        (timedelta, "10 parsecs"),
        (timedelta, "-1 s"),
        (timedelta, ""),
        (timedelta, "1000000000 d"),
        (ByteSize, "1.5"),
        (ByteSize, "1 mile"),
        (ByteSize, "-1"),
        (Mode, "slow"),
        (Path, ""),
        (Path, "~no-such-user/jobs"),
        (str, ["a"]),
        (tuple[str, ...], {"a": "b"}),
        (dict[str, str], "a"),
        (dict[str, str], ":1"),
        (dict[str, str], '{a: "1", b: 2}'),
        (dict[str, str], '"a": 1'),
    ],
)
def test_text_that_is_not_a_value_of_the_type_is_refused(kind: Any, text: Any) -> None:
    with pytest.raises(ValueError):
        parse(kind, text)


def test_allowed_values_are_described_in_words() -> None:
    assert allowed(Mode) == "one of fast, very-safe"
    assert allowed(int | None) == "a whole number, or none"


def test_only_types_with_a_text_form_are_supported() -> None:
    assert is_supported(timedelta | None)
    assert not is_supported(bytes)
    assert not is_supported(int | str)


NAMES = st.text("abcdefghij-._", min_size=1).filter(str.strip)


@given(st.one_of(st.timedeltas(min_value=timedelta(0)), st.integers(0, 1 << 60).map(ByteSize)))
def test_durations_and_sizes_are_read_back_exactly(value: Any) -> None:
    assert parse(type(value), format_value(value)) == value


@given(
    st.one_of(
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.lists(NAMES).map(tuple),
        st.dictionaries(NAMES, NAMES),
        st.sampled_from(Mode),
        st.none(),
    )
)
def test_every_value_is_read_back_as_itself(value: Any) -> None:
    kinds: dict[type, Any] = {tuple: tuple[str, ...], dict: dict[str, str], type(None): int | None}
    kind = kinds.get(type(value), type(value))
    assert parse(kind, format_value(value)) == value


@given(st.text(max_size=20))
def test_no_text_raises_an_unexpected_error(text: str) -> None:
    for kind in (timedelta, ByteSize, int, Mode, dict[str, str], tuple[str, ...]):
        try:
            parse(kind, text)
        except ValueError:
            continue

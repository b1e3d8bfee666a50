"""Fields of a request that may stand in its body or in its query."""

import pytest

from stoker.core.errors import InvalidInput
from stoker.rest.requests.parameters import get_flag, get_seconds, get_text


@pytest.mark.parametrize(
    ("value", "flag"),
    [(True, True), (False, False), (None, False), ("true", True), ("False", False), ("TRUE", True)],
)
def test_a_flag_is_a_json_boolean_or_its_text(value: object, flag: bool) -> None:
    assert get_flag({"drain": value}, "drain") is flag
    assert get_flag({}, "drain") is False


@pytest.mark.parametrize("value", [1, 0, "1", "yes", "", [], {}])
def test_any_other_flag_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="drain must be true or false"):
        get_flag({"drain": value}, "drain")


@pytest.mark.parametrize(("value", "seconds"), [(0, 0.0), ("1.5", 1.5), (86400, 86400.0)])
def test_seconds_are_a_number_or_its_text(value: object, seconds: float) -> None:
    assert get_seconds({"wait": value}, "wait") == seconds
    assert get_seconds({}, "wait") is None


@pytest.mark.parametrize("value", [-1, 86401, "nan", "inf", "soon", True, [], 10**400])
def test_any_other_number_of_seconds_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="wait must be a number of seconds"):
        get_seconds({"wait": value}, "wait")


def test_a_text_must_be_a_string_and_an_empty_one_counts_as_missing() -> None:
    assert get_text({"path": "/saved"}, "path") == "/saved"
    assert get_text({"path": ""}, "path") is None
    with pytest.raises(InvalidInput, match="path must be a string"):
        get_text({"path": 7}, "path")

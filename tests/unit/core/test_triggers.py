import pytest

from stoker.core.triggers import AvailableNow, Every, Once, parse_trigger


@pytest.mark.parametrize(
    ("text", "trigger"),
    [
        ("10 seconds", Every("10 seconds", 10)),
        ("1 Second", Every("1 second", 1)),
        ("500 milliseconds", Every("500 milliseconds", 0.5)),
        ("1  minute 30 seconds", Every("1 minute 30 seconds", 90)),
        ("2 hours", Every("2 hours", 7200)),
        ("0 seconds", Every("0 seconds", 0)),
        ("available-now", AvailableNow()),
        ("once", Once()),
    ],
)
def test_triggers_are_read_as_users_write_them(text: str, trigger: object) -> None:
    assert parse_trigger(text) == trigger


def test_an_interval_too_large_for_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="is too long"):
        parse_trigger(f"{'9' * 400} seconds")

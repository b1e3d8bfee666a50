"""Durations as users write them: 500 ms, 10 s, 1 min, 2 hours."""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Final

MICROSECONDS: Final = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_UNIT_NAMES = {
    "us": ("us", "micro", "micros", "microsecond", "microseconds"),
    "ms": ("ms", "milli", "millis", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "min": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hour", "hours"),
    "d": ("d", "day", "days"),
}
_UNIT_BY_NAME = {name: unit for unit, names in _UNIT_NAMES.items() for name in names}
_TOO_LONG = Decimal(10) ** 20
"""More microseconds than a timedelta can have. To round a much larger number takes long."""
_NUMBER_AND_UNIT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


class DurationTooLong(ValueError):
    """The text is a duration, but longer than a timedelta can be."""


def read_duration(text: str) -> timedelta:
    """Raises ValueError when the text is not a number with a unit of time, or too long a time."""
    match = _NUMBER_AND_UNIT.fullmatch(text.strip().lower())
    unit = _UNIT_BY_NAME.get(match[2]) if match else None
    if match is None or unit is None:
        raise ValueError(f"'{text}' is not a duration; write a number and a unit, such as 10 s")
    number = min(Decimal(match[1]), _TOO_LONG)
    try:
        return timedelta(microseconds=round(number * MICROSECONDS[unit]))
    except OverflowError as error:
        raise DurationTooLong(f"'{text}' is too long; write at most 999999999 d") from error

"""Triggers: when a streaming query starts its next batch, as users write it."""

import math
import re
from dataclasses import dataclass

_UNITS_IN_SECONDS = {
    "millisecond": 0.001,
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86400.0,
}
_TERM = re.compile(r"(\d+) ([a-z]+?)s?(?= |$)")
_INTERVAL = re.compile(r"\d+ [a-z]+(?: \d+ [a-z]+)*")

TRIGGER_FORMS = "an interval such as '10 seconds', 'available-now' or 'once'"


@dataclass(frozen=True)
class Every:
    """A batch at each interval; `text` is the form for Spark."""

    text: str
    seconds: float


@dataclass(frozen=True)
class AvailableNow:
    """Process all data that is available now, in as many batches as needed, then end."""


@dataclass(frozen=True)
class Once:
    """Process all data that is available now, in one batch, then end."""


Trigger = Every | AvailableNow | Once


def normal_trigger(text: str) -> str:
    """The spelling used in job graphs: lower case, single spaces."""
    return " ".join(text.lower().split())


def parse_trigger(text: str) -> Trigger:
    """Raises ValueError with a message for the user."""
    if text == "available-now":
        return AvailableNow()
    if text == "once":
        return Once()
    normal = normal_trigger(text)
    if _INTERVAL.fullmatch(normal) is None:
        raise ValueError(f"'{text}' is not a trigger")
    seconds = 0.0
    for amount, unit in _TERM.findall(normal):
        if unit not in _UNITS_IN_SECONDS:
            raise ValueError(f"'{text}' has the unknown unit '{unit}'")
        seconds += float(amount) * _UNITS_IN_SECONDS[unit]
    if math.isinf(seconds):
        raise ValueError(f"'{text}' is too long")
    return Every(text=normal, seconds=seconds)

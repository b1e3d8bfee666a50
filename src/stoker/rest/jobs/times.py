"""Times as Flink's API writes them."""

from stoker.api.jobs import NOT_ENDED
from stoker.core.values import Millis


def end_time(end: Millis | None) -> int:
    return NOT_ENDED if end is None else end


def duration(start: Millis, end: Millis | None, now: Millis) -> int:
    """Milliseconds up to the end, or up to now; never negative, clocks differ."""
    return max(0, (now if end is None else end) - start)

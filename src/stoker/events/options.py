"""Options of the event log."""

from dataclasses import dataclass
from datetime import timedelta

from stoker.core.errors import InvalidOption
from stoker.core.options import ByteSize, option

MAX_FLUSH_INTERVAL = timedelta(seconds=10)


@dataclass(frozen=True, kw_only=True)
class EventOptions:
    flush_interval: timedelta = option(
        "events.flush-interval",
        "How long the leading master collects events before it writes them together; what it has "
        "not written when it dies is lost, except the submissions and ends of jobs.",
        timedelta(milliseconds=500),
    )
    max_age: timedelta = option("events.max-age", "How long events are kept.", timedelta(days=14))
    max_count: int = option("events.max-count", "How many events are kept.", 100_000)
    max_size: ByteSize = option(
        "events.max-size",
        "How many bytes of the storage the events take.",
        ByteSize(64 * 1024 * 1024),
    )

    def __post_init__(self) -> None:
        for key, is_right in (
            ("events.flush-interval", timedelta(0) < self.flush_interval <= MAX_FLUSH_INTERVAL),
            ("events.max-age", self.max_age > timedelta(0)),
            ("events.max-count", self.max_count > 0),
            ("events.max-size", self.max_size > 0),
        ):
            if not is_right:
                limit = ", at most 10 s" if key == "events.flush-interval" else ""
                raise InvalidOption(f"{key} must be more than 0{limit}", key=key)

"""Options of heartbeats."""

from dataclasses import dataclass
from datetime import timedelta

from stoker.core.errors import InvalidOption
from stoker.core.options import option

NEVER = -1
"""A failure threshold of this value switches the count of unreachable calls off."""


@dataclass(frozen=True, kw_only=True)
class HeartbeatOptions:
    interval: timedelta = option(
        "heartbeat.interval",
        "How often the sending side asks each monitored target for a heartbeat.",
        timedelta(seconds=10),
    )
    timeout: timedelta = option(
        "heartbeat.timeout",
        "Silence after which either side declares the other dead; must exceed the interval.",
        timedelta(seconds=50),
    )
    rpc_failure_threshold: int = option(
        "heartbeat.rpc-failure-threshold",
        "How many heartbeat calls in a row must find nobody until the target counts as dead before "
        "the timeout; -1 switches this off.",
        2,
    )

    def __post_init__(self) -> None:
        if self.interval <= timedelta(0):
            raise InvalidOption(
                f"heartbeat.interval is {self.interval.total_seconds():g} s; "
                "set it to more than zero",
                key="heartbeat.interval",
            )
        if self.timeout <= self.interval:
            raise InvalidOption(
                f"heartbeat.timeout ({self.timeout.total_seconds():g} s) must exceed "
                f"heartbeat.interval ({self.interval.total_seconds():g} s); raise the timeout, "
                "five times the interval is a good choice",
                key="heartbeat.timeout",
            )
        if self.rpc_failure_threshold < 1 and self.rpc_failure_threshold != NEVER:
            raise InvalidOption(
                f"heartbeat.rpc-failure-threshold is {self.rpc_failure_threshold}; "
                "set it to 1 or more, or to -1 to switch it off",
                key="heartbeat.rpc-failure-threshold",
            )

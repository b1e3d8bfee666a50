"""Decides whether a peer is alive. Pure: the time is an argument.

Two signs of death count: silence for the whole timeout, and several calls in a row that find
nobody at the address of the peer. A verdict other than RUNNING is final: whatever arrives
afterwards changes nothing, so that a loss is reported exactly once.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from stoker.heartbeat.options import NEVER


class Liveness(StrEnum):
    RUNNING = "RUNNING"
    TIMEOUT = "TIMEOUT"
    """Silent for longer than the timeout."""
    UNREACHABLE = "UNREACHABLE"
    """As many calls in a row as the threshold says found nobody at the address."""


@dataclass(frozen=True, kw_only=True)
class Monitor:
    """The state of one target. Times are seconds of the event loop's clock."""

    timeout: float
    threshold: int
    last_heard: float
    failures: int = 0
    """Consecutive calls that found nobody."""
    liveness: Liveness = Liveness.RUNNING

    @property
    def deadline(self) -> float:
        """Time at which silence becomes a timeout."""
        return self.last_heard + self.timeout

    def after_heartbeat(self, now: float) -> "Monitor":
        if self.liveness is not Liveness.RUNNING:
            return self
        return replace(self, last_heard=max(now, self.last_heard), failures=0)

    def after_unreachable_call(self) -> "Monitor":
        if self.liveness is not Liveness.RUNNING:
            return self
        failures = self.failures + 1
        if self.threshold != NEVER and failures >= self.threshold:
            return replace(self, failures=failures, liveness=Liveness.UNREACHABLE)
        return replace(self, failures=failures)

    def at(self, now: float) -> "Monitor":
        if self.liveness is not Liveness.RUNNING or now < self.deadline:
            return self
        return replace(self, liveness=Liveness.TIMEOUT)

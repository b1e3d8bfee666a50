"""Decides whether a peer is alive, from what was heard of it and when. Pure: time is an argument.

A verdict other than RUNNING is final: whatever arrives afterwards changes nothing, so that the
loss of a target can be told exactly once.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from stoker.heartbeat.options import NEVER


class Liveness(StrEnum):
    RUNNING = "RUNNING"
    TIMEOUT = "TIMEOUT"
    """Silent for longer than the timeout."""
    UNREACHABLE = "UNREACHABLE"
    """Calls failed as unreachable, as many in a row as the threshold says."""


@dataclass(frozen=True, kw_only=True)
class Monitor:
    """What is known of one target. Times are seconds of the loop's clock."""

    timeout: float
    threshold: int
    last_heard: float
    failures: int = 0
    """Consecutive calls that failed as unreachable."""
    liveness: Liveness = Liveness.RUNNING

    @property
    def deadline(self) -> float:
        """When silence becomes a timeout."""
        return self.last_heard + self.timeout

    def heard(self, now: float) -> "Monitor":
        if self.liveness is not Liveness.RUNNING:
            return self
        return replace(self, last_heard=max(now, self.last_heard), failures=0)

    def call_found_nobody(self) -> "Monitor":
        if self.liveness is not Liveness.RUNNING:
            return self
        failures = self.failures + 1
        if self.threshold != NEVER and failures >= self.threshold:
            return replace(self, failures=failures, liveness=Liveness.UNREACHABLE)
        return replace(self, failures=failures)

    def checked(self, now: float) -> "Monitor":
        if self.liveness is not Liveness.RUNNING or now < self.deadline:
            return self
        return replace(self, liveness=Liveness.TIMEOUT)

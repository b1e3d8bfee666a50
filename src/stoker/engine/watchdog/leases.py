"""Until when work in each Spark session may continue, as the server's watchdog knows it. Pure.

A frozen task executor cannot end its tasks, and neither can a dead runner. The watchdog holds the
lease of every session with a task, and can end the work without either of them.
"""

from pathlib import Path

import msgspec


class WatchLease(msgspec.Struct, frozen=True, kw_only=True, tag="watch"):
    """To the watchdog, at the start of a task and at each renewal of its lease."""

    session_id: str
    until: float
    """A moment of the machine's monotonic clock."""
    runner: int = 0
    """Process id of the runner; 0 while there is none."""
    runner_started: int | None = None
    """Start time of the runner, since the kernel reuses process ids."""


class Unwatch(msgspec.Struct, frozen=True, kw_only=True, tag="unwatch"):
    """To the watchdog: no work is left in the session that could do harm."""

    session_id: str


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """From the watchdog: the process id of the Spark server."""

    pid: int


ToWatchdog = WatchLease | Unwatch


class WatchedLeases:
    def __init__(self) -> None:
        self._leases: dict[str, WatchLease] = {}

    def handle(self, message: ToWatchdog) -> None:
        match message:
            case WatchLease():
                self._leases[message.session_id] = self._never_shortened(message)
            case Unwatch():
                self._leases.pop(message.session_id, None)

    def seconds_left(self, now: float) -> float | None:
        """Seconds until the first lease expires; None when there is none."""
        if not self._leases:
            return None
        return max(0.0, min(lease.until for lease in self._leases.values()) - now)

    def pop_expired(self, now: float) -> list[WatchLease]:
        """Remove and return the leases that have expired, so that each is acted on once."""
        expired = [lease for lease in self._leases.values() if lease.until <= now]
        for lease in expired:
            del self._leases[lease.session_id]
        return expired

    def _never_shortened(self, lease: WatchLease) -> WatchLease:
        """The longer of the two leases: renewals may overtake each other."""
        previous = self._leases.get(lease.session_id)
        if previous is None or previous.until <= lease.until:
            return lease
        return msgspec.structs.replace(lease, until=previous.until)


def closed_marker(directory: Path, session_id: str) -> Path:
    """The file that a runner creates when its lease has run out and it has closed its session."""
    return directory / session_id

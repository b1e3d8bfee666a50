"""How a cluster is shut down for good. Pure: remaining work and time in, the next step out.

The order matters. Savepoints that are under way finish first, because a cancellation would break
them. Then every job is cancelled, and the shutdown waits for the end and the clean-up of all jobs.
Both waits are bounded, so that one stuck job cannot keep a cluster alive. A job that has not ended
by then stays on record together with its cancellation, for the next cluster to finish.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from stoker.core.ids import JobId
from stoker.core.values import Millis
from stoker.ha.stores.shutdowns import ShutdownRecord, ShutdownStage

FORGOTTEN_AFTER_MILLIS: Final = 5 * 60 * 1000
"""An incomplete shutdown without a leader still counts for at least this long."""


@dataclass(frozen=True, kw_only=True)
class RemainingWork:
    """Everything at this leader that must end before the cluster does."""

    savepoints: int = 0
    """Savepoints under way."""
    submissions: int = 0
    """Submissions under way; each may still become a job."""
    replacements: int = 0
    """Replacements under way, which will find that the cluster accepts nothing new."""
    running: frozenset[JobId] = frozenset()
    """Jobs, also those in quarantine, that are not cancelled yet."""
    stopping: frozenset[JobId] = frozenset()
    """Jobs that were stopped with a savepoint and finish on their own."""
    ending: frozenset[JobId] = frozenset()
    """Cancelled jobs that have not ended."""
    in_cleanup: frozenset[JobId] = frozenset()


@dataclass(frozen=True)
class WaitUntil:
    deadline: float
    """Loop time after which the plan decides again, if nothing has changed before."""


@dataclass(frozen=True)
class CancelJobs:
    jobs: frozenset[JobId]


@dataclass(frozen=True)
class ShutdownComplete:
    unfinished: frozenset[JobId] = frozenset()
    """Jobs that did not end in time."""


ShutdownStep = WaitUntil | CancelJobs | ShutdownComplete


class ShutdownPlan:
    """The plan of one leader. The next leader has the full time again."""

    def __init__(self, began: float, timeout: float) -> None:
        self._timeout = timeout
        self._savepoints_until = began + timeout
        self._jobs_until: float | None = None
        self._cancelled: set[JobId] = set()

    def next_step(self, remaining: RemainingWork, now: float) -> ShutdownStep:
        if self._jobs_until is None:
            if remaining.savepoints and now < self._savepoints_until:
                return WaitUntil(self._savepoints_until)
            self._jobs_until = now + self._timeout
        in_time = now < self._jobs_until
        uncancelled = remaining.running | remaining.stopping
        # Every job is cancelled at least once, even when the time is over.
        to_cancel = remaining.running if in_time else uncancelled - self._cancelled
        if to_cancel:
            self._cancelled |= to_cancel
            return CancelJobs(to_cancel)
        unfinished = uncancelled | remaining.ending | remaining.in_cleanup
        if in_time and (unfinished or remaining.submissions or remaining.replacements):
            return WaitUntil(self._jobs_until)
        return ShutdownComplete(unfinished)


class RecordedShutdown(Enum):
    """What a new leader does about a shutdown that it finds on record."""

    SERVE = "serve"
    COMPLETE = "complete"
    FORGET = "forget"
    """No leader was left to complete it, and a cluster that starts much later is meant to run."""
    END = "end"
    """The shutdown is complete and includes this process."""


def decide_recorded_shutdown(
    record: ShutdownRecord | None, *, concerns_us: bool, now: Millis, timeout_millis: Millis
) -> RecordedShutdown:
    if record is None:
        return RecordedShutdown.SERVE
    if record.stage is ShutdownStage.OVER:
        return RecordedShutdown.END if concerns_us else RecordedShutdown.SERVE
    # Savepoints and jobs may each take the timeout once.
    age = now - record.at
    if age > FORGOTTEN_AFTER_MILLIS + 2 * timeout_millis:
        return RecordedShutdown.FORGET
    return RecordedShutdown.COMPLETE

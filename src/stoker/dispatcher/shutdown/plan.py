"""How a cluster ends for good. Pure: what there is and the time in, the next step out.

Savepoints that are being taken come first, since a cancel would break them. Then every job is
cancelled, and its end and clean-up are waited for. Both waits are bounded: what is left then
stays on record with its cancel, for the next cluster to finish.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from stoker.core.ids import JobId
from stoker.core.values import Millis
from stoker.ha.stores.shutdowns import ShutdownRecord, ShutdownStage

FORGOTTEN_AFTER_MILLIS: Final = 5 * 60 * 1000
"""So long after it was asked for, at least, a shutdown that all leaders died over still counts."""


@dataclass(frozen=True, kw_only=True)
class Remaining:
    """What a leader still has that must end before the cluster does."""

    savepoints: int = 0
    submissions: int = 0
    """On their way: each may still become a job."""
    replacements: int = 0
    """Of jobs by others, which find that nothing new is taken any more."""
    running: frozenset[JobId] = frozenset()
    """Also in quarantine: nobody has asked them to end."""
    stopping: frozenset[JobId] = frozenset()
    """Their savepoint is taken: they finish by themselves in a moment."""
    ending: frozenset[JobId] = frozenset()
    cleaning: frozenset[JobId] = frozenset()


@dataclass(frozen=True)
class Wait:
    until: float


@dataclass(frozen=True)
class Cancel:
    jobs: frozenset[JobId]


@dataclass(frozen=True)
class Over:
    left: frozenset[JobId] = frozenset()
    """Jobs that did not end in time."""


Step = Wait | Cancel | Over


class Ending:
    """Of one leader; the next one has all its time again."""

    def __init__(self, began: float, patience: float) -> None:
        self._patience = patience
        self._savepoints_until = began + patience
        self._jobs_until: float | None = None
        self._asked: set[JobId] = set()

    def next_step(self, remaining: Remaining, now: float) -> Step:
        if self._jobs_until is None:
            if remaining.savepoints and now < self._savepoints_until:
                return Wait(self._savepoints_until)
            self._jobs_until = now + self._patience
        in_time = now < self._jobs_until
        uncancelled = remaining.running | remaining.stopping
        # Each at least once, however late it is.
        to_cancel = remaining.running if in_time else uncancelled - self._asked
        if to_cancel:
            self._asked |= to_cancel
            return Cancel(to_cancel)
        unfinished = uncancelled | remaining.ending | remaining.cleaning
        if in_time and (unfinished or remaining.submissions or remaining.replacements):
            return Wait(self._jobs_until)
        return Over(unfinished)


class Standing(Enum):
    """What a new leader does about the shutdown that it finds on record."""

    SERVE = "serve"
    COMPLETE = "complete"
    FORGET = "forget"
    """Nobody was left to complete it, and who starts a cluster much later wants it to run."""
    END = "end"


def standing_of(
    record: ShutdownRecord | None, *, concerns_us: bool, now: Millis, patience_millis: Millis
) -> Standing:
    if record is None:
        return Standing.SERVE
    if record.stage is ShutdownStage.OVER:
        return Standing.END if concerns_us else Standing.SERVE
    # Savepoints and jobs may take the time once each.
    age = now - record.at
    if age > FORGOTTEN_AFTER_MILLIS + 2 * patience_millis:
        return Standing.FORGET
    return Standing.COMPLETE

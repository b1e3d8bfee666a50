"""How long a task may go on unheard, and what its own process does when that is over. Pure.

A moment is one of the machine's monotonic clock, which is the same in all processes here and the
time of the task executor's loop: a message that was on its way for long, or was read late by a
process that was frozen, extends nothing.
"""

import math
from enum import IntEnum

from stoker.core.results import Failure
from stoker.core.values import Value


class LeaseStep(IntEnum):
    """What is due. Each step is harder than the one before, and gets half of the margin."""

    GO_ON = 0
    END = 1
    """As if it were cancelled."""
    FORCE = 2
    """It does not end in good order: whatever of it can be reached is ended."""
    KILL = 3
    """The lease is over, and so is the task, whatever that takes."""


class Lease(Value):
    until: float
    margin: float
    """Seconds before that, in which the task comes to its end."""

    def due(self, now: float) -> LeaseStep:
        if now >= self.until:
            return LeaseStep.KILL
        if now >= self.until - self.margin / 2:
            return LeaseStep.FORCE
        if now >= self.until - self.margin:
            return LeaseStep.END
        return LeaseStep.GO_ON

    def seconds_to(self, step: LeaseStep, now: float) -> float:
        """Until the step is due; 0 when it is."""
        begins = {
            LeaseStep.GO_ON: now,
            LeaseStep.END: self.until - self.margin,
            LeaseStep.FORCE: self.until - self.margin / 2,
            LeaseStep.KILL: self.until,
        }
        return max(0.0, begins[step] - now)

    def renewed(self, until: float) -> "Lease":
        """Never shorter: renewals may overtake each other."""
        return Lease(until=max(self.until, until), margin=self.margin)


FOREVER = Lease(until=math.inf, margin=0.0)


def lease_ran_out() -> Failure:
    return Failure(
        error="AttemptCancelled",
        message="ended by its own process: its lease has run out, and its task executor renewed "
        "it no more",
    )

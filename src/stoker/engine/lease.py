"""Leases: how long a task may run without hearing from its task executor.

A task executor that is frozen or cut off cannot stop its tasks, and another attempt may start
elsewhere when its lease has expired. So every task's own process knows its lease and ends in time:
first like a cancelled task, then by force, and at the deadline by SIGKILL.

Invariant: times are those of the machine's monotonic clock, which all processes here share and
which is the time of the task executor's loop. A renewal names the absolute end of the lease, so a
message that was delayed or that a frozen process reads late extends nothing.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping
from enum import IntEnum

from stoker.core.results import Failure
from stoker.core.values import Value


class LeaseStep(IntEnum):
    """What the task's process does now. END and FORCE take half of the margin each."""

    CONTINUE = 0
    END = 1
    """End as if the task were cancelled."""
    FORCE = 2
    """The task has not ended by then: end everything of it that can be reached."""
    KILL = 3
    """The lease has expired: kill the process."""


class Lease(Value):
    until: float
    margin: float
    """Seconds before `until`, in which the task has to end."""

    def due(self, now: float) -> LeaseStep:
        if now >= self.until:
            return LeaseStep.KILL
        if now >= self.until - self.margin / 2:
            return LeaseStep.FORCE
        if now >= self.until - self.margin:
            return LeaseStep.END
        return LeaseStep.CONTINUE

    def seconds_to(self, step: LeaseStep, now: float) -> float:
        """Seconds until the step is due; 0 when it is due."""
        begins = {
            LeaseStep.CONTINUE: now,
            LeaseStep.END: self.until - self.margin,
            LeaseStep.FORCE: self.until - self.margin / 2,
            LeaseStep.KILL: self.until,
        }
        return max(0.0, begins[step] - now)

    def renewed(self, until: float) -> "Lease":
        """The longer of the two leases: renewals may overtake each other."""
        return Lease(until=max(self.until, until), margin=self.margin)


FOREVER = Lease(until=math.inf, margin=0.0)


def lease_expired() -> Failure:
    return Failure(
        error="AttemptCancelled",
        message="ended by its own process: its lease has expired without a renewal by its task "
        "executor",
    )


_LONGEST_WAIT_SECONDS = 3600.0
"""Python's locks accept no infinite timeout."""


class LeaseThreads:
    """Runs each step once, when it is due, in a thread of its own.

    The threads exist from the start. So no step waits for an earlier one that hangs, and none fails
    because user code has used up the last thread.
    """

    def __init__(self, lease: Lease, steps: Mapping[LeaseStep, Callable[[], None]]) -> None:
        self._lease = lease
        self._steps = steps
        self._changed = threading.Condition()
        self._is_stopped = False

    def start(self) -> None:
        for step, act in self._steps.items():
            threading.Thread(
                target=self._do, args=(step, act), name=f"lease-{step.name.lower()}", daemon=True
            ).start()

    @property
    def due(self) -> LeaseStep:
        with self._changed:
            return self._lease.due(time.monotonic())

    def renew(self, until: float) -> None:
        with self._changed:
            self._lease = self._lease.renewed(until)
            self._changed.notify_all()

    def stop(self) -> bool:
        """Stop, since the work is done; return False and change nothing if a step has been due.

        After True no step runs, not even that of a thread which wakes up too late.
        """
        with self._changed:
            if self._lease.due(time.monotonic()) is not LeaseStep.CONTINUE:
                return False
            self._is_stopped = True
            self._changed.notify_all()
            return True

    def _do(self, step: LeaseStep, act: Callable[[], None]) -> None:
        with self._changed:
            while not self._is_stopped:
                seconds = self._lease.seconds_to(step, time.monotonic())
                if not seconds:
                    break
                self._changed.wait(min(seconds, _LONGEST_WAIT_SECONDS))
            else:
                return
        act()

"""A task executor that leaves in good order. Pure: what it has and the time in, what to do out."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from stoker.core.errors import NotFound
from stoker.core.ids import AllocationId
from stoker.taskexecutor.held_task import HeldTask

UNREPORTED_SECONDS = 10.0
"""So long an outcome waits for its job master; it is on record, so that nothing is lost then."""


@dataclass
class Draining:
    is_draining: bool = False
    _deadline: float = math.inf
    _idle_since: float = field(default=math.inf)

    def begin(self, now: float, seconds: float | None) -> None:
        """Again is harmless; the shorter time counts."""
        self.is_draining = True
        if seconds is not None:
            self._deadline = min(self._deadline, now + seconds)

    def check_accepting(self, allocation: AllocationId) -> None:
        """A job master that hears this looks for another slot."""
        if self.is_draining:
            raise NotFound(
                f"slot {allocation} takes no new task: this task executor is drained",
                allocation=allocation,
            )

    def tasks_to_move(self, tasks: Iterable[HeldTask], now: float) -> list[HeldTask]:
        """Streams, which never end by themselves, and all others when the time is over."""
        if not self.is_draining:
            return []
        return [
            task
            for task in tasks
            if task.outcome is None
            and task.cancel_reason is None
            and (task.streaming or now >= self._deadline)
        ]

    def is_over(self, tasks: Iterable[HeldTask], now: float) -> bool:
        """Nothing runs, and every master has heard of its outcomes or had the time to."""
        held = list(tasks)
        if not self.is_draining or any(task.outcome is None for task in held):
            self._idle_since = math.inf
            return False
        self._idle_since = min(self._idle_since, now)
        return not held or now - self._idle_since >= UNREPORTED_SECONDS

"""Draining: how a task executor gets rid of its work before it stops. Pure.

A drained task executor accepts no new task. Streams never end by themselves, so they move to
another task executor at once; other tasks may finish within the given time and move afterwards.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from stoker.core.errors import NotFound
from stoker.core.ids import AllocationId
from stoker.taskexecutor.held_task import HeldTask

UNREPORTED_SECONDS = 10.0
"""How long an outcome waits for its job master. Nothing is lost then: it is on record."""


@dataclass
class Draining:
    is_draining: bool = False
    _deadline: float = math.inf
    _idle_since: float = field(default=math.inf)

    def begin(self, now: float, seconds: float | None) -> None:
        """Start to drain, or shorten the time of a drain that has started."""
        self.is_draining = True
        if seconds is not None:
            self._deadline = min(self._deadline, now + seconds)

    def check_accepting(self, allocation: AllocationId) -> None:
        """Raise NotFound while draining, on which a job master looks for another slot."""
        if self.is_draining:
            raise NotFound(
                f"slot {allocation} accepts no new task: this task executor is draining",
                allocation=allocation,
            )

    def tasks_to_move(self, tasks: Iterable[HeldTask], now: float) -> list[HeldTask]:
        """Running streams and, once the time is over, every running task."""
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
        """Nothing runs, and every outcome was acknowledged or has waited long enough."""
        held = list(tasks)
        if not self.is_draining or any(task.outcome is None for task in held):
            self._idle_since = math.inf
            return False
        self._idle_since = min(self._idle_since, now)
        return not held or now - self._idle_since >= UNREPORTED_SECONDS

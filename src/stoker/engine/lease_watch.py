"""The threads of a task's process that end it before its lease is over."""

import threading
import time
from collections.abc import Callable, Mapping

from stoker.engine.lease import Lease, LeaseStep

_LONGEST_WAIT_SECONDS = 3600.0
"""Python's locks cannot wait for ever with a limit."""


class LeaseWatch:
    """Does each step once, when it is due.

    Each has a thread from the start: none waits for the one before, which may hang, and none needs
    a thread when user code has taken the last one.
    """

    def __init__(self, lease: Lease, steps: Mapping[LeaseStep, Callable[[], None]]) -> None:
        self._lease = lease
        self._steps = steps
        self._changed = threading.Condition()
        self._is_over = False

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

    def end(self) -> bool:
        """Nothing is left that would have to end. Whether no step was due, so that none is done."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
            return self._lease.due(time.monotonic()) is LeaseStep.GO_ON

    def _do(self, step: LeaseStep, act: Callable[[], None]) -> None:
        with self._changed:
            while seconds := self._lease.seconds_to(step, time.monotonic()):
                if self._is_over:
                    return
                self._changed.wait(min(seconds, _LONGEST_WAIT_SECONDS))
        act()

"""Runs a command and leaves no process of it behind, not even daemons.

`python -m stoker.osproc.supervisor PARENT GRACE -- command …` is the parent of the command and, as
a subreaper, of every orphan that the command makes. SIGTERM is passed on to all of them, and they
are killed GRACE seconds later; SIGUSR1 or the death of PARENT kills them at once. The supervisor
ends as the command did: with the same exit code or by the same signal.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from typing import NoReturn

from stoker.osproc.parent_death import (
    become_subreaper,
    die_with_parent,
    exit_like,
    start_tied_child,
)
from stoker.osproc.process_tree import descendants_of

_SIGNALS = frozenset({signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD})
_SETTLE_SECONDS = 2.0
_POLL_SECONDS = 0.02


class Supervisor:
    def __init__(self, parent: int, grace: float) -> None:
        self._parent = parent
        self._grace = grace
        self._child = 0
        self._status: int | None = None

    def run(self, command: list[str]) -> NoReturn:
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        become_subreaper()
        die_with_parent(self._parent, signal.SIGTERM)
        self._child = start_tied_child(command, blocked=_SIGNALS)
        if self._wait():
            # Let the JVM of a driver that has ended write its files, and daemons stop in order.
            self._end_all(signal.SIGTERM, _SETTLE_SECONDS)
        self._end_all(signal.SIGKILL, None)
        exit_like(self._status if self._status is not None else -signal.SIGKILL)

    def _wait(self) -> bool:
        """Wait until the command has ended (True) or must be killed with its offspring (False)."""
        deadline: float | None = None
        while True:
            left = 3600.0 if deadline is None else max(0.0, deadline - time.monotonic())
            received = signal.sigtimedwait(_SIGNALS, left)
            self._reap()
            if self._status is not None:
                return True
            if received is None and deadline is not None:
                return False
            if received is None or received.si_signo == signal.SIGCHLD:
                continue
            if received.si_signo == signal.SIGUSR1 or os.getppid() != self._parent:
                return False
            if deadline is None:
                deadline = time.monotonic() + self._grace
                self._signal_all(signal.SIGTERM)

    def _end_all(self, number: signal.Signals, seconds: float | None) -> None:
        deadline = None if seconds is None else time.monotonic() + seconds
        repeat = number is signal.SIGKILL
        self._signal_all(number)
        while self._reap():
            if deadline is not None and time.monotonic() > deadline:
                return
            if repeat:
                self._signal_all(number)
            signal.sigtimedwait({signal.SIGCHLD}, _POLL_SECONDS)

    def _reap(self) -> bool:
        """Collect ended children; return whether any child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._child:
                self._status = os.waitstatus_to_exitcode(status)

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in descendants_of(os.getpid()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def main() -> NoReturn:
    parent, grace, separator, *command = sys.argv[1:]
    if separator != "--" or not command:
        raise SystemExit("usage: python -m stoker.osproc.supervisor PARENT GRACE -- command ...")
    Supervisor(int(parent), float(grace)).run(command)


if __name__ == "__main__":
    main()

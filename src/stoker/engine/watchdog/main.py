"""The watchdog: parent of a Spark server, which it kills when the lease of work there expires.

A task's work in Spark continues without its task executor and without its runner. When both are
frozen or dead, somebody else has to stop that work before another attempt starts. The watchdog
depends on neither of them, imports next to nothing, and does only this.

`python -m stoker.engine.watchdog.main PARENT FD CLOSED -- command …` runs the server and receives
the leases over the socket FD. When a lease expires it kills the task's runner and the server,
unless a marker in the directory CLOSED says that the runner has closed the session.

Invariant: no server runs without its watchdog, since the kernel kills it with the watchdog.
"""

import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import msgspec

from stoker.core.failpoints import failpoint
from stoker.engine.watchdog.leases import (
    Started,
    ToWatchdog,
    WatchedLeases,
    WatchLease,
    closed_marker,
)
from stoker.osproc.parent_death import die_with_parent, exit_like, start_tied_child
from stoker.osproc.process_tree import kill_tree, start_time

_LARGEST_MESSAGE = 4096
_LONGEST_WAIT_SECONDS = 3600.0


class Watchdog:
    def __init__(self, control: socket.socket, closed_sessions: Path) -> None:
        self._control = control
        self._closed_sessions = closed_sessions
        self._leases = WatchedLeases()
        self._decoder = msgspec.msgpack.Decoder(ToWatchdog)
        self._server = 0

    def run(self, command: list[str]) -> NoReturn:
        wakeup = _open_signal_pipe()
        self._server = start_tied_child(command)
        signal.signal(signal.SIGTERM, lambda _signal, _frame: self._forward(signal.SIGTERM))
        self._control.send(msgspec.msgpack.encode(Started(pid=self._server)))
        while (status := self._server_status()) is None:
            left = self._leases.seconds_left(time.monotonic())
            seconds = _LONGEST_WAIT_SECONDS if left is None else min(left, _LONGEST_WAIT_SECONDS)
            ready, _, _ = select.select([self._control.fileno(), wakeup], [], [], seconds)
            if wakeup in ready:
                os.read(wakeup, 512)
            # Renewals first: they may have arrived while this process itself was frozen.
            if not self._receive_all():
                kill_tree(self._server)
            for lease in self._leases.pop_expired(time.monotonic()):
                self._end_work(lease)
        exit_like(status)

    def _receive_all(self) -> bool:
        """Handle all pending messages; return whether the task executor is still there."""
        while True:
            try:
                data = self._control.recv(_LARGEST_MESSAGE, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            except ConnectionError:
                return False
            if not data:
                return False
            self._leases.handle(self._decoder.decode(data))

    def _end_work(self, lease: WatchLease) -> None:
        if closed_marker(self._closed_sessions, lease.session_id).exists():
            return
        print(
            f"the lease of session {lease.session_id} has expired and nobody has ended its work: "
            "kill the Spark server",
            file=sys.stderr,
            flush=True,
        )
        failpoint("lease.before-killing")
        if lease.runner_started and start_time(lease.runner) == lease.runner_started:
            # Together with what it has started; the zygote finds processes that got away.
            kill_tree(lease.runner)
        kill_tree(self._server)

    def _forward(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._server, number)

    def _server_status(self) -> int | None:
        pid, status = os.waitpid(self._server, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None


def _open_signal_pipe() -> int:
    """A descriptor that becomes readable at SIGCHLD and SIGTERM."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
    return reading


def main() -> NoReturn:
    parent, descriptor, closed, separator, *command = sys.argv[1:]
    if separator != "--" or not command:
        raise SystemExit(
            "usage: python -m stoker.engine.watchdog.main PARENT FD CLOSED -- command ..."
        )
    die_with_parent(int(parent))
    os.set_inheritable(int(descriptor), False)
    Watchdog(socket.socket(fileno=int(descriptor)), Path(closed)).run(command)


if __name__ == "__main__":
    main()

"""The parent of a Spark server, which ends it when the lease of work at it has run out.

`python -m stoker.engine.watchdog.main PARENT FD CLOSED -- command …` runs the command, hears over
the socket FD until when each task may go on, and kills the server and the task's runner when that
moment comes, unless the directory CLOSED has the mark of a session that was closed in good order.
It depends on nobody: not on the task executor, which may be frozen, nor on the runner, which may
be dead. The server ends with it, by the kernel, so that work is never without a warden.
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
from stoker.engine.watchdog.leases import Guard, Guards, Started, ToWarden, closed_mark
from stoker.osproc.parent_death import tie_to_parent
from stoker.osproc.process_tree import kill_tree, start_time
from stoker.osproc.tied_command import end_like, start_tied

_LARGEST_MESSAGE = 4096
_LONGEST_WAIT_SECONDS = 3600.0


class Warden:
    def __init__(self, control: socket.socket, closed: Path) -> None:
        self._control = control
        self._closed = closed
        self._guards = Guards()
        self._decoder = msgspec.msgpack.Decoder(ToWarden)
        self._server = 0

    def run(self, command: list[str]) -> NoReturn:
        """Never returns."""
        woken = _wake_up_by_signals()
        self._server = start_tied(command)
        signal.signal(signal.SIGTERM, lambda _signal, _frame: self._pass_on(signal.SIGTERM))
        self._control.send(msgspec.msgpack.encode(Started(pid=self._server)))
        while (status := self._status()) is None:
            left = self._guards.seconds_left(time.monotonic())
            seconds = _LONGEST_WAIT_SECONDS if left is None else min(left, _LONGEST_WAIT_SECONDS)
            ready, _, _ = select.select([self._control.fileno(), woken], [], [], seconds)
            if woken in ready:
                os.read(woken, 512)
            # First whatever has come while this process did not run itself.
            if not self._hear():
                kill_tree(self._server)
            for guard in self._guards.pop_over(time.monotonic()):
                self._end(guard)
        end_like(status)

    def _hear(self) -> bool:
        """Whether the task executor is there."""
        while True:
            try:
                data = self._control.recv(_LARGEST_MESSAGE, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            except ConnectionError:
                return False
            if not data:
                return False
            self._guards.take(self._decoder.decode(data))

    def _end(self, guard: Guard) -> None:
        if closed_mark(self._closed, guard.session_id).exists():
            return
        print(
            f"the lease of session {guard.session_id} is over and nobody has ended its work: "
            "the Spark server is killed",
            file=sys.stderr,
            flush=True,
        )
        failpoint("lease.before-killing")
        if guard.runner_started and start_time(guard.runner) == guard.runner_started:
            # With what it has started; the zygote finds those that got away.
            kill_tree(guard.runner)
        kill_tree(self._server)

    def _pass_on(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._server, number)

    def _status(self) -> int | None:
        pid, status = os.waitpid(self._server, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None


def _wake_up_by_signals() -> int:
    """What becomes readable at a signal: the end of the server, or a wish for it."""
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
    tie_to_parent(int(parent))
    os.set_inheritable(int(descriptor), False)
    Warden(socket.socket(fileno=int(descriptor)), Path(closed)).run(command)


if __name__ == "__main__":
    main()

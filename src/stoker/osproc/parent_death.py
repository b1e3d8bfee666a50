"""Child processes that die with their parent, by the kernel's parent-death signal.

A task executor may be killed at any moment, without a chance to end what it started. The kernel
does that for it: it sends each child the signal that the child asked for.

`python -m stoker.osproc.parent_death PARENT SIGNAL -- command …` runs a command with this set up.

Linux watches the *thread* that forked, not the process: start children from the main thread, which
lives as long as the process.
"""

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Collection
from typing import NoReturn

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent(parent_pid: int, death_signal: signal.Signals = signal.SIGKILL) -> None:
    """Ask for the signal when the parent dies; exit at once if the parent is dead already."""
    _prctl(_PR_SET_PDEATHSIG, int(death_signal))
    if os.getppid() != parent_pid:
        os._exit(0)


def become_subreaper() -> None:
    """Become the parent of descendants that lose their own, so that this process can find them."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(operation: int, argument: int) -> None:
    if _LIBC.prctl(operation, argument, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def die_with_parent_command(
    *command: str, death_signal: signal.Signals = signal.SIGKILL
) -> list[str]:
    """The command line that runs `command` as a child that dies with this process."""
    parent = [str(os.getpid()), death_signal.name, "--"]
    return [sys.executable, "-m", "stoker.osproc.parent_death", *parent, *command]


def start_tied_child(command: list[str], *, blocked: Collection[signal.Signals] = ()) -> int:
    """Start a child that dies with this process, in a session of its own; return its process id.

    `blocked`: signals that this process has blocked and the child must not.
    """
    parent = os.getpid()
    pid = os.fork()
    if pid != 0:
        return pid
    try:
        die_with_parent(parent)
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
        os.execvp(command[0], command)
    finally:
        os._exit(127)


def exit_like(status: int) -> NoReturn:
    """End this process as its child ended: by the same exit code or the same signal.

    `status` is as `os.waitstatus_to_exitcode` gives it.
    """
    if status < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        number = -status
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(status if status >= 0 else 128 - status)


def main() -> None:
    parent_pid, death_signal, separator, *command = sys.argv[1:]
    if separator != "--" or not command:
        raise SystemExit(
            "usage: python -m stoker.osproc.parent_death PARENT_PID SIGNAL -- command ..."
        )
    die_with_parent(int(parent_pid), signal.Signals[death_signal])
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()

"""Ties a child process to its parent by the kernel.

`python -m stoker.osproc.parent_death PARENT SIGNAL -- command …` runs the command so that it gets
the signal when the parent dies.

The tie is to the *thread* that forked, so children are started from the main thread.
"""

import ctypes
import os
import signal
import sys

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

SINGLE_THREADED = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""Keeps libraries that the zygote imports from starting threads, over which a fork may trip."""


def tie_to_parent(parent_pid: int, death_signal: signal.Signals = signal.SIGKILL) -> None:
    """Be signalled when the parent ends; ends at once when that has happened already."""
    _prctl(_PR_SET_PDEATHSIG, int(death_signal))
    if os.getppid() != parent_pid:
        os._exit(0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that they can be found."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(operation: int, argument: int) -> None:
    if _LIBC.prctl(operation, argument, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def tethered(*command: str, death_signal: signal.Signals = signal.SIGKILL) -> list[str]:
    """The command line that runs `command` tied to this process."""
    tie = [str(os.getpid()), death_signal.name, "--"]
    return [sys.executable, "-m", "stoker.osproc.parent_death", *tie, *command]


def main() -> None:
    parent_pid, death_signal, separator, *command = sys.argv[1:]
    if separator != "--" or not command:
        raise SystemExit(
            "usage: python -m stoker.osproc.parent_death PARENT_PID SIGNAL -- command ..."
        )
    tie_to_parent(int(parent_pid), signal.Signals[death_signal])
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()

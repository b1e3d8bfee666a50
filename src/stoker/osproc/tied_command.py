"""A command as a child that ends with this process, and this process ending as the command did."""

import os
import resource
import signal
from collections.abc import Collection
from typing import NoReturn

from stoker.osproc.parent_death import tie_to_parent


def start_tied(command: list[str], *, blocked: Collection[signal.Signals] = ()) -> int:
    """In a session of its own. `blocked` are signals that are meant for this process alone."""
    parent = os.getpid()
    pid = os.fork()
    if pid != 0:
        return pid
    try:
        tie_to_parent(parent)
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
        os.execvp(command[0], command)
    finally:
        os._exit(127)


def end_like(status: int) -> NoReturn:
    """`status` is as `os.waitstatus_to_exitcode` gives it."""
    if status < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        number = signal.Signals(-status)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(status if status >= 0 else 128 - status)

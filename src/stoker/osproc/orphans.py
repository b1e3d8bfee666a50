"""Orphan processes: found by a mark in their environment, and killed.

The kernel ends runners and servers together with their task executor, but not what user code has
started: a process that forked twice has no parent that anybody knows. Yet every process inherits
the environment of the one that started it, and with it a mark that names the task executor, the
Spark server or the session.
"""

import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from stoker.osproc.process_tree import (
    all_processes,
    environment_of,
    is_about_to_begin,
    start_time,
    value_in,
)

logger = logging.getLogger(__name__)

OWNER = "STOKER_OWNER"
"""Environment variable that names the task executor to which a process belongs."""
SERVER = "STOKER_SPARK_SERVER"
"""Environment variable that names the Spark server that started a process."""
WORKER_MARK = "SPARK_JOB_ARTIFACT_UUID"
"""Spark's own environment variable: the session of a Python worker and of all that it starts."""

_MOST_ROUNDS = 50
_PAUSE_SECONDS = 0.02


def owner_mark() -> str:
    """Identifies this process: its process id namespace, its id and its start time."""
    pid = os.getpid()
    return f"{_namespace()}/{pid}/{start_time(pid)}"


def is_orphaned(mark: str) -> bool:
    """Whether the owner is certainly gone. Owners in other process id namespaces cannot be seen,
    so their processes are left alone."""
    namespace, _, rest = mark.partition("/")
    pid, _, began = rest.partition("/")
    if namespace != _namespace() or not pid.isdecimal():
        return False
    return str(start_time(int(pid))) != began


def kill_orphans() -> int:
    """Kill all processes whose task executor is gone; return their number."""
    killed = _kill_marked(OWNER, is_orphaned)
    if killed:
        logger.warning("killed %d orphan processes of a previous task executor", killed)
    return killed


def kill_marked(name: str, mark: str) -> int:
    """Kill all processes with the environment variable `name=mark`; return their number."""
    return _kill_marked(name, mark.__eq__)


def _kill_marked(name: str, is_meant: Callable[[str], bool]) -> int:
    # Process ids with start times, because the kernel reuses ids.
    killed: set[tuple[int, int]] = set()
    for _ in range(_MOST_ROUNDS):
        meant, are_all_known = _find_marked(name, is_meant)
        newly = meant - killed
        for pid, _ in newly:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed |= newly
        # A process may have started another one just before it was killed, unseen by this search.
        # And a dying process loses its environment before it is gone.
        are_all_gone = not any(start_time(pid) == began for pid, began in killed)
        if not newly and are_all_known and are_all_gone:
            break
        time.sleep(_PAUSE_SECONDS)
    return len(killed)


def _find_marked(name: str, is_meant: Callable[[str], bool]) -> tuple[set[tuple[int, int]], bool]:
    """Return the processes with such a mark, and whether all others certainly have none."""
    meant: set[tuple[int, int]] = set()
    are_all_known = True
    for pid in all_processes():
        if pid == os.getpid():
            continue
        environment = environment_of(pid)
        mark = value_in(environment, name)
        if not environment and is_about_to_begin(pid):
            are_all_known = False
        elif mark is not None and is_meant(mark) and (began := start_time(pid)) is not None:
            meant.add((pid, began))
    return meant, are_all_known


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""

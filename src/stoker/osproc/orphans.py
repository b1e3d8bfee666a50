"""Processes that outlived what they belong to: found by a mark in their environment, and killed.

The kernel ties runners and servers to their task executor, but not what user code has started: a
process that was forked twice belongs to nobody. Whatever is started by a marked process carries
its mark.
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
"""Names the task executor that a process belongs to."""
SERVER = "STOKER_SPARK_SERVER"
"""Names the Spark server that a process was started by."""
WORKER_MARK = "SPARK_JOB_ARTIFACT_UUID"
"""Spark's own: names the session of a Python worker, and of whatever that starts."""

_ROUNDS = 50
_PAUSE_SECONDS = 0.02


def owner_mark() -> str:
    """This process: where ids count, its id, and when it began."""
    pid = os.getpid()
    return f"{_namespace()}/{pid}/{start_time(pid)}"


def is_orphaned(mark: str) -> bool:
    """The owner is gone, for certain: who counts ids otherwise is none of our business."""
    namespace, _, rest = mark.partition("/")
    pid, _, began = rest.partition("/")
    if namespace != _namespace() or not pid.isdigit():
        return False
    return str(start_time(int(pid))) != began


def kill_orphans() -> int:
    """End whatever a task executor that is gone has left on this machine; gives their number."""
    killed = _kill_marked(OWNER, is_orphaned)
    if killed:
        logger.warning("killed %d processes that a former task executor had left behind", killed)
    return killed


def kill_marked(name: str, mark: str) -> int:
    """End whatever has this mark in its environment; gives their number."""
    return _kill_marked(name, mark.__eq__)


def _kill_marked(name: str, is_meant: Callable[[str], bool]) -> int:
    killed: set[tuple[int, int]] = set()
    """With their start times: an id may be given again."""
    for _ in range(_ROUNDS):
        meant, are_all_known = _look_for(name, is_meant)
        newly = meant - killed
        for pid, _ in newly:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed |= newly
        # One of them may have started another before it was killed, behind this look. And one that
        # is about to end has no environment any more, but is still there.
        are_all_gone = not any(start_time(pid) == began for pid, began in killed)
        if not newly and are_all_known and are_all_gone:
            break
        time.sleep(_PAUSE_SECONDS)
    return len(killed)


def _look_for(name: str, is_meant: Callable[[str], bool]) -> tuple[set[tuple[int, int]], bool]:
    """Those with such a mark, and whether all others were seen to have none."""
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

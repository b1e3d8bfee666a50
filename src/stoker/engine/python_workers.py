"""Spark's Python workers: which processes they are, and what memory those of a task may take.

Spark forks a worker for each core on which a Python function of a query runs. Workers are below the
JVM, not below the task's own process, so no limit of that process reaches them. A shared server has
those of all its sessions at once, told apart by Spark's own mark in their environment.

The process that runs the task measures its workers twice a second. When together they take too
much, it kills them and nothing else: the query fails, with a failure that says why, and the
neighbours at the same server go on.

Spark's own limit (`spark.executor.pyspark.memory`) is no substitute. It is one figure for all tasks
of a server, divided by the number of cores, and it counts address space, of which Arrow reserves
far more than it uses. It remains the way to limit workers on other machines, which nobody here can
measure.
"""

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from stoker.core.results import Failure
from stoker.engine.limits import (
    MEGABYTE,
    MachineMemory,
    memory_of_machine,
    proportional_bytes,
)
from stoker.osproc.orphans import WORKER_MARK, kill_marked
from stoker.osproc.process_tree import (
    children_of,
    descendants_of,
    environment_of,
    kill_tree,
    own_bytes,
    program_of,
    value_in,
)

_NOT_WORKERS = ("", "java", "jspawnhelper", "rm")
"""Other children of a JVM: Spark removes the files of each session with a command."""
_MEASURE_SECONDS = 0.5
_FREE_BYTES = 128 * MEGABYTE
"""Memory of each worker that does not count: what Python, pandas and Arrow take in an idle one."""
_LEAST_AVAILABLE = 0.05
_LARGE_PART = 0.2
"""Shares of the machine's memory: below the first it is scarce, and the second is a large part."""
_SMALL_BYTES = 256 * MEGABYTE
"""Workers this small are never the reason, so the machine need not be looked at."""


def python_workers_at(jvm: int) -> list[int]:
    """The processes from which the JVM's Python workers are forked.

    A process that has yet to become one (a Java launcher) does not count.
    """
    return [child for child in children_of(jvm) if program_of(child) not in _NOT_WORKERS]


class WorkersOfSession:
    """The workers of one session of a shared server."""

    def __init__(self, server_pid: int, ask_mark: Callable[[], str]) -> None:
        self._server_pid = server_pid
        self._ask_mark = ask_mark
        self._mark = ""

    def find(self) -> list[int]:
        roots = python_workers_at(self._server_pid) if self._server_pid else []
        if roots and not self._mark:
            # Costs a query, so only a task that may have workers asks, and only once.
            self._mark = self._ask_mark()
        own = [pid for pid in roots if value_in(environment_of(pid), WORKER_MARK) == self._mark]
        return _with_descendants(own) if self._mark else []

    def kill(self) -> None:
        kill_marked(WORKER_MARK, self._mark)


class WorkersOfDriver:
    """All workers below a driver, which has a JVM of its own."""

    def find(self) -> list[int]:
        return _with_descendants(self._roots())

    def kill(self) -> None:
        for root in self._roots():
            kill_tree(root)

    def _roots(self) -> list[int]:
        jvms = [pid for pid in descendants_of(os.getpid()) if program_of(pid) == "java"]
        return [root for jvm in jvms for root in python_workers_at(jvm)]


def _with_descendants(roots: Iterable[int]) -> list[int]:
    return [pid for root in roots for pid in (root, *descendants_of(root))]


class WorkerMemoryWatch:
    """Kills the workers of a task when they take more memory than the task may."""

    def __init__(self, workers: WorkersOfSession | WorkersOfDriver, limit: int) -> None:
        self._workers = workers
        self._limit = limit
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="worker-memory", daemon=True)
        self.failure: Failure | None = None
        """Why the workers were killed; None if they were not."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_MEASURE_SECONDS):
            # A process may end while it is being looked at.
            with suppress(OSError):
                self.failure = self.check() or self.failure

    def check(self) -> Failure | None:
        """Measure once, and kill the workers if it is too much."""
        pids = self._workers.find()
        allowed = self._limit + _FREE_BYTES * len(pids)
        rough = sum(map(own_bytes, pids))
        if rough <= allowed:
            return self._end_what_fills_the_machine(pids, rough)
        # That sum counts pages that forked workers share more than once.
        used = sum(map(proportional_bytes, pids))
        if used <= allowed:
            return None
        self._workers.kill()
        return workers_out_of_memory(self._limit, used, len(pids))

    def _end_what_fills_the_machine(self, pids: list[int], rough: int) -> Failure | None:
        """Kill large workers before the kernel kills whatever it chooses.

        A limit alone does not protect a machine whose memory others use.
        """
        if rough <= _SMALL_BYTES or not fills_machine(rough, machine := memory_of_machine()):
            return None
        used = sum(map(proportional_bytes, pids))
        if not fills_machine(used, machine):
            return None
        self._workers.kill()
        return workers_fill_machine(machine.available, used, len(pids))


def fills_machine(used: int, machine: MachineMemory) -> bool:
    """Whether the machine is nearly out of memory and `used` bytes are a large part of it."""
    is_scarce = machine.available < machine.total * _LEAST_AVAILABLE
    return is_scarce and used > machine.total * _LARGE_PART


def workers_out_of_memory(limit: int, used: int, count: int) -> Failure:
    return Failure(
        error="OutOfMemory",
        message=f"{_took(used, count)}, and the task may take {limit // MEGABYTE} MB; they were"
        f" killed; {_FEWER_ROWS}, or raise runner.memory or the memory that the job asks for",
    )


def workers_fill_machine(available: int, used: int, count: int) -> Failure:
    return Failure(
        error="OutOfMemory",
        message=f"{_took(used, count)}, and the machine had only {available // MEGABYTE} MB left;"
        f" they were killed; {_FEWER_ROWS}, or set runner.memory so that all tasks fit",
    )


_FEWER_ROWS = (
    "hold fewer rows at a time (more partitions, smaller"
    " spark.sql.execution.arrow.maxRecordsPerBatch)"
)


def _took(used: int, count: int) -> str:
    workers = "the Python worker" if count == 1 else f"the {count} Python workers"
    return f"{workers} in which Spark ran the task's functions took {used // MEGABYTE} MB"

"""Spark's Python daemon, whose workers print into the logs of their task and work where it does.

Spark starts this module instead of `pyspark.daemon` (setting `spark.python.daemon.module`), perhaps
with an interpreter that lacks Stoker. So it is found by its file alone, on PYTHONPATH, and imports
only PySpark and the standard library.

By default, what user functions print on workers goes to the log of the Spark server, where the
output of all jobs is mixed. But each task carries the settings of its session to its worker, as
local properties. One of them names the directory of the attempt, in which the runner of the task
reads two named pipes. A task without this setting prints where Spark would have printed it.

In the same way a task names the directory of its caller, in which the functions of a pipeline work:
a function on a worker finds a file by the same relative path. Other workers stay where Spark has
started them, in the directory of the session's files.
"""

import os
import socket
import sys
from contextlib import suppress
from typing import Any

from pyspark import daemon
from pyspark.taskcontext import TaskContext

DIRECTORY = "spark.stoker.attempt.directory"
"""Setting that names the directory with the pipes."""
PIPES = ("workers.stdout", "workers.stderr")
"""Names of the pipes for standard output and standard error."""
WORKING_DIRECTORY = "spark.stoker.working.directory"
"""Setting that names the directory in which functions work; empty for that of Spark."""
WORKING_DIRECTORY_VARIABLE = "PYTHON_WORKER_DIRECTORY"
"""The same for all workers of a driver, which also run functions of RDDs."""


def open_pipe(directory: str, name: str) -> int | None:
    """None if there is no such pipe, for example because the attempt has ended."""
    if not directory:
        return None
    try:
        # For reading, too: a pipe that nobody else reads must not break the function that prints.
        return os.open(os.path.join(directory, name), os.O_RDWR)
    except OSError:
        return None


class WorkerStreams:
    """Standard output and standard error of a worker process, as its present task wants them."""

    def __init__(self) -> None:
        self._originals = (os.dup(1), os.dup(2))
        self._directory = ""

    def follow(self, directory: str) -> None:
        """Print into the pipes of this directory from now on, or where Spark does."""
        self.flush()
        if directory == self._directory:
            return
        self._directory = directory
        for standard, original, name in zip((1, 2), self._originals, PIPES, strict=True):
            pipe = open_pipe(directory, name)
            os.dup2(original if pipe is None else pipe, standard)
            if pipe is not None:
                os.close(pipe)

    def buffer_lines(self) -> None:
        """Write whole lines at once, so that those of several workers do not mix."""
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(  # type: ignore[union-attr]
                encoding="utf-8",
                errors="backslashreplace",
                line_buffering=True,
                write_through=False,
            )

    def flush(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            # User code may have closed or replaced its streams.
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()


class WorkingDirectory:
    """The directory in which a worker process works, as its present task wants it."""

    def __init__(self) -> None:
        self._original = os.getcwd()

    def follow(self, directory: str) -> None:
        """Work in this directory from now on, or where Spark has started the worker."""
        # Also if it is the same as before: the last function may have gone elsewhere.
        for place in filter(None, (directory, self._original)):
            with suppress(OSError):
                os.chdir(place)
                return


def follow_tasks(streams: WorkerStreams, place: WorkingDirectory) -> None:
    """Make PySpark's worker redirect its streams when it begins a task, and flush them at its end.

    It also enters the directory in which the task's functions work.

    Call this before any worker is forked.
    """
    # Much of PySpark is untyped, hence the Any.
    context_class: Any = TaskContext
    spark_daemon: Any = daemon
    set_context, run_worker = context_class._setTaskContext.__func__, spark_daemon.worker

    def set_context_and_follow(cls: Any, context: Any) -> None:
        set_context(cls, context)
        if context is None:
            streams.flush()
        else:
            streams.follow(context.getLocalProperty(DIRECTORY) or "")
            place.follow(
                context.getLocalProperty(WORKING_DIRECTORY)
                or os.environ.get(WORKING_DIRECTORY_VARIABLE, "")
            )

    def run_and_flush(connection: socket.socket, authenticated: bool) -> int:
        streams.buffer_lines()
        try:
            code: int = run_worker(connection, authenticated)
            return code
        finally:
            streams.flush()

    context_class._setTaskContext = classmethod(set_context_and_follow)
    spark_daemon.worker = run_and_flush


if __name__ == "__main__":
    follow_tasks(WorkerStreams(), WorkingDirectory())
    daemon.manager()

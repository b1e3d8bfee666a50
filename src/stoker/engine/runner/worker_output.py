"""What functions print on Spark's Python workers, added to the output of their task.

Workers are children of the Spark server. The runner makes two named pipes in the directory of the
attempt, which the workers find through a setting of the session (`stoker_python_daemon`). A thread
copies what arrives to the runner's own streams, and so into the logs of the attempt, within their
limits.

A runner that takes over a stream finds the pipes of its predecessor and continues to read them.
Meanwhile they hold what is printed, and a worker waits when they are full.
"""

import os
import select
import threading
from contextlib import suppress
from pathlib import Path

from stoker.engine.python_worker.stoker_python_daemon import PIPES

_CHUNK_BYTES = 64 * 1024
_MOST_LAST_CHUNKS = 16
"""Chunks copied at the end of the task: an interrupted function may print without end."""


class WorkerOutput:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stop = -1
        """Write end of the pipe that tells the thread to stop; -1 until the start."""
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Make the pipes and read them. Does nothing if that has been done."""
        if self._thread is not None:
            return
        pipes = {_open_pipe(self._directory / name): 1 + at for at, name in enumerate(PIPES)}
        stopped, self._stop = os.pipe()
        self._thread = threading.Thread(
            target=_copy, args=(pipes, stopped), name="worker-output", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Return when everything that the workers had printed is in the output of this process."""
        if self._thread is None:
            return
        # Closing it would not do: a process that user code has forked holds this end as well.
        os.write(self._stop, b"\0")
        self._thread.join()
        os.close(self._stop)
        self._thread = None


def _open_pipe(path: Path) -> int:
    with suppress(FileExistsError):
        os.mkfifo(path, 0o600)
    # For writing, too: otherwise the pipe would be at its end whenever no worker has it open.
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def _copy(pipes: dict[int, int], stopped: int) -> None:
    """Copy each pipe to its stream until something arrives at `stopped`."""
    poll = select.poll()
    for descriptor in (*pipes, stopped):
        poll.register(descriptor, select.POLLIN)
    is_over = False
    while not is_over:
        ready = {descriptor for descriptor, _ in poll.poll()}
        is_over = stopped in ready
        for pipe, stream in pipes.items():
            if is_over or pipe in ready:
                _copy_what_is_there(pipe, stream, _MOST_LAST_CHUNKS if is_over else 1)
    for descriptor in (*pipes, stopped):
        os.close(descriptor)


def _copy_what_is_there(pipe: int, stream: int, most_chunks: int) -> None:
    for _ in range(most_chunks):
        try:
            data = os.read(pipe, _CHUNK_BYTES)
        except BlockingIOError:
            return
        # The reader is gone only if the task executor is dead, and then this process ends, too.
        with suppress(BrokenPipeError):
            while data:
                data = data[os.write(stream, data) :]

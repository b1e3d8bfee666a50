"""The zygote: the process from which runners are forked, with PySpark imported and nothing open.

Importing PySpark takes seconds; a fork takes milliseconds and shares the memory. The zygote serves
the task executor over the socket FD: `python -m stoker.engine.zygote.main FD`.

Invariants: it has a single thread while it serves, since forking beside another thread may deadlock
the child. It never blocks, so that a kill is done at once. It reports the exit of a runner only
when every process that the runner started is gone. When the task executor ends, the zygote kills
all runners with everything that they have started, and ends.
"""

import gc
import importlib
import importlib.metadata
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress

import msgspec
import numpy

from stoker.engine.protocol import Exited, Fork, Forked, Kill, ToZygote
from stoker.engine.runner.janitor import serve_as_janitor
from stoker.engine.runner.main import serve_as_runner
from stoker.engine.zygote.prewarm import prewarm_grpc, prewarm_spark
from stoker.osproc.parent_death import become_subreaper, die_with_parent
from stoker.osproc.process_tree import children_of, descendants_of, replace_content

_LARGEST_REQUEST = 4096
_LAST_SWEEPS = 100
_LAST_SWEEP_SECONDS = 0.02
_OOM_SCORE_FILE = "/proc/self/oom_score_adj"
_RUNNER_OOM_SCORE = b"500"
"""Makes the kernel kill a runner first when the machine runs out of memory."""
_NO_PREWARM = "no-prewarm"

# Otherwise the first task would spend its time on these imports.
_PRELOADED_MODULES = (
    "pandas",
    "pyarrow",
    "grpc",
    "grpc_status.rpc_status",
    "pyspark.cloudpickle",
    "pyspark.errors.exceptions.connect",
    "pyspark.sql.connect.functions.builtin",
    "pyspark.sql.connect.session",
    "pyspark.sql.connect.streaming.query",
    "pyspark.sql.connect.streaming.readwriter",
    "pyspark.sql.connect.udf",
    "pyspark.sql.functions",
    "pyspark.sql.pandas.functions",
    "pyspark.sql.types",
)
_OPTIONAL_MODULES = ("grpc._channel", "grpc._auth", "grpc._plugin_wrapping")
"""gRPC imports these with its first channel, which would be the runner's."""


class Zygote:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: dict[int, int] = {}
        """Runner numbers by process id, of children that have not been reaped."""
        self._unreported: list[Exited] = []
        """Ended runners, reported once every process that they started is gone."""
        self._decoder = msgspec.msgpack.Decoder(ToZygote)

    def serve(self) -> None:
        wakeup_read, wakeup_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        stopping = False

        def on_terminate(_signal: int, _frame: object) -> None:
            nonlocal stopping
            stopping = True

        signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
        signal.signal(signal.SIGTERM, on_terminate)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(wakeup_read, selectors.EVENT_READ)
            while not stopping:
                for key, _ in selector.select():
                    if key.fd == wakeup_read:
                        os.read(wakeup_read, 512)
                    elif not self.handle_request():
                        stopping = True
                self._reap()
        self._end_all()

    def _end_all(self) -> None:
        for pid in self._children:
            _kill_tree(pid)
        for _ in range(_LAST_SWEEPS):
            self._reap()
            if not self._children and not self._kill_orphans():
                return
            time.sleep(_LAST_SWEEP_SECONDS)

    def handle_request(self) -> bool:
        """Carry out one request; return whether the task executor is still there."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, _LARGEST_REQUEST, 3)
        except ConnectionError:
            # The task executor died before it had read all reports.
            return False
        if not data:
            return False
        match self._decoder.decode(data):
            case Fork(runner=runner, janitor=janitor):
                self._fork(runner, descriptors, serve_as_janitor if janitor else serve_as_runner)
            case Kill(runner=runner):
                for pid, number in self._children.items():
                    if number == runner:
                        _kill_tree(pid)
        return True

    def _fork(
        self, runner: int, descriptors: list[int], serve: Callable[[socket.socket], None]
    ) -> None:
        zygote = os.getpid()
        # Otherwise forked siblings would draw the same random numbers. Seeding in the child would
        # cost it many copied pages of memory.
        numpy.random.seed()
        pid = os.fork()
        if pid == 0:
            self._become_child(zygote, descriptors, serve)
        for descriptor in descriptors:
            os.close(descriptor)
        self._children[pid] = runner
        self._report(Forked(runner=runner, pid=pid))

    def _become_child(
        self, zygote: int, descriptors: list[int], serve: Callable[[socket.socket], None]
    ) -> None:
        """Never return: the child must not enter the zygote's loop."""
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            die_with_parent(zygote)
            become_subreaper()
            os.setsid()
            self._control.close()
            with suppress(OSError):
                replace_content(_OOM_SCORE_FILE, _RUNNER_OOM_SCORE)
            connection, *output = descriptors
            for standard, descriptor in zip((1, 2), output, strict=True):
                os.dup2(descriptor, standard)
                os.close(descriptor)
            serve(socket.socket(fileno=connection))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)

    def _reap(self) -> None:
        while (pid := _next_ended()) is not None:
            # Not reaped yet, so its group id cannot belong to another process.
            _kill_group(pid)
            _, status = os.waitpid(pid, 0)
            runner = self._children.pop(pid, None)
            if runner is not None:
                code = os.waitstatus_to_exitcode(status)
                self._unreported.append(Exited(runner=runner, pid=pid, status=code))
        if self._unreported and not self._kill_orphans():
            for exited in self._unreported:
                self._report(exited)
            self._unreported = []

    def _kill_orphans(self) -> bool:
        """Kill adopted processes, whose runner has ended; return whether there were any.

        Each of them is reaped like a runner later, after which its own children are adopted.
        """
        orphans = [pid for pid in children_of(os.getpid()) if pid not in self._children]
        for pid in orphans:
            _kill_tree(pid)
        return bool(orphans)

    def _report(self, message: Forked | Exited) -> None:
        # The end of the task executor shows as the end of the control socket.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._control.send(msgspec.msgpack.encode(message))


def _next_ended() -> int | None:
    try:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return ended.si_pid if ended is not None else None


def _kill_tree(pid: int) -> None:
    """Kill a group and descendants that left it; what these start meanwhile is adopted later."""
    descendants = descendants_of(pid)
    _kill_group(pid)
    for descendant in descendants:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(descendant, signal.SIGKILL)


def _kill_group(pid: int) -> None:
    # Before the child has called setsid it has no group: then kill the process itself.
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _prewarm() -> bool:
    """Prewarm PySpark and gRPC; return whether this process may fork afterwards."""
    try:
        prewarm_spark()
    # Another version of PySpark may expect other answers; then runners just start more slowly.
    except Exception:
        traceback.print_exc()
    return prewarm_grpc()


def main() -> None:
    descriptor, *how = sys.argv[1:]
    for module in _PRELOADED_MODULES:
        importlib.import_module(module)
    for module in _OPTIONAL_MODULES:
        with suppress(ImportError):
            importlib.import_module(module)
    # Searches all installed packages, once for all runners.
    importlib.metadata.version("pyspark")
    if _NO_PREWARM not in how and not _prewarm():
        # Forking beside another thread may deadlock: restart without prewarming.
        command = [sys.executable, "-m", "stoker.engine.zygote.main", descriptor, _NO_PREWARM]
        os.execv(sys.executable, command)
    gc.collect()
    # Frozen objects are not touched by the collector and so stay shared with every runner.
    gc.freeze()
    become_subreaper()
    with socket.socket(fileno=int(descriptor)) as control:
        Zygote(control).serve()


if __name__ == "__main__":
    main()

"""The process that runners are forked from: it has imported PySpark and opened nothing.

`python -m stoker.engine.zygote.main FD` serves the task executor over the socket FD. It has one
thread when it serves, and never blocks, so that a fork is safe and a kill is done at once. When the
task executor goes, every runner goes with everything that it has started.
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
from stoker.engine.zygote.grpc_prewarm import rehearse_grpc
from stoker.engine.zygote.spark_prewarm import prewarm_spark
from stoker.osproc.parent_death import adopt_orphans, tie_to_parent
from stoker.osproc.process_tree import children_of, descendants_of, replace_content

_LARGEST_REQUEST = 4096
_LAST_SWEEPS = 100
_LAST_SWEEP_SECONDS = 0.02
_BADNESS = "/proc/self/oom_score_adj"
_BAD_FIRST = b"500"
"""When the machine runs out of memory, the kernel shall take a runner before all else."""
_UNREHEARSED = "unrehearsed"

# What a first task would otherwise spend its time importing.
_IMPORTED_BEFOREHAND = (
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
_IMPORTED_IF_THERE = ("grpc._channel", "grpc._auth", "grpc._plugin_wrapping")
"""gRPC puts these off until its first channel, which is the runner's."""


class Zygote:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: dict[int, int] = {}
        """Process id to the runner's number; a child leaves when it has been reaped."""
        self._gone: list[Exited] = []
        """Runners that have ended, of which others hear when nothing they started is left."""
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
                    elif not self._handle_request():
                        stopping = True
                self._reap()
        self._end_all()

    def _end_all(self) -> None:
        for pid in self._children:
            _kill_tree(pid)
        for _ in range(_LAST_SWEEPS):
            self._reap()
            if not self._children and not self._kill_strays():
                return
            time.sleep(_LAST_SWEEP_SECONDS)

    def _handle_request(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._control, _LARGEST_REQUEST, 3)
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
        # Forked siblings would otherwise draw the same random numbers. Here, since a child would
        # have to get many pages of its own for it.
        numpy.random.seed()
        pid = os.fork()
        if pid == 0:
            self._become_child(zygote, descriptors, serve)
        for descriptor in descriptors:
            os.close(descriptor)
        self._children[pid] = runner
        self._tell(Forked(runner=runner, pid=pid))

    def _become_child(
        self, zygote: int, descriptors: list[int], serve: Callable[[socket.socket], None]
    ) -> None:
        """Never returns: the child must not come back into the zygote's own loop."""
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            tie_to_parent(zygote)
            adopt_orphans()
            os.setsid()
            self._control.close()
            with suppress(OSError):
                replace_content(_BADNESS, _BAD_FIRST)
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
            # Not reaped yet, so its group number cannot belong to anybody else.
            _kill_group(pid)
            _, status = os.waitpid(pid, 0)
            runner = self._children.pop(pid, None)
            if runner is not None:
                code = os.waitstatus_to_exitcode(status)
                self._gone.append(Exited(runner=runner, pid=pid, status=code))
        if self._gone and not self._kill_strays():
            for exited in self._gone:
                self._tell(exited)
            self._gone = []

    def _kill_strays(self) -> bool:
        """Whether there were any: processes whose runner has ended, come to us by adoption.

        Each of them comes back as an ended child, and its own children with it.
        """
        strays = [pid for pid in children_of(os.getpid()) if pid not in self._children]
        for pid in strays:
            _kill_tree(pid)
        return bool(strays)

    def _tell(self, message: Forked | Exited) -> None:
        # A task executor that is gone shows as the end of the control socket.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._control.send(msgspec.msgpack.encode(message))


def _next_ended() -> int | None:
    try:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return ended.si_pid if ended is not None else None


def _kill_tree(pid: int) -> None:
    """Also those that left the group; what they start meanwhile is found when it is adopted."""
    descendants = descendants_of(pid)
    _kill_group(pid)
    for descendant in descendants:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(descendant, signal.SIGKILL)


def _kill_group(pid: int) -> None:
    # The child may not have reached setsid yet: then it has no group, and itself must do.
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _rehearse() -> bool:
    """Whether this process may fork afterwards."""
    try:
        prewarm_spark()
    # Another PySpark may want other answers: then runners are slower, and that is all.
    except Exception:
        traceback.print_exc()
    return rehearse_grpc()


def main() -> None:
    descriptor, *how = sys.argv[1:]
    for module in _IMPORTED_BEFOREHAND:
        importlib.import_module(module)
    for module in _IMPORTED_IF_THERE:
        with suppress(ImportError):
            importlib.import_module(module)
    # Looks through all that is installed, once for all runners.
    importlib.metadata.version("pyspark")
    if _UNREHEARSED not in how and not _rehearse():
        # A fork beside another thread may hang: begin anew, and let runners be slower.
        command = [sys.executable, "-m", "stoker.engine.zygote.main", descriptor, _UNREHEARSED]
        os.execv(sys.executable, command)
    gc.collect()
    # Objects that the collector never touches stay shared with every runner.
    gc.freeze()
    adopt_orphans()
    with socket.socket(fileno=int(descriptor)) as control:
        Zygote(control).serve()


if __name__ == "__main__":
    main()

"""What the task executor and its runner, zygote and janitor processes say to each other.

Runners and janitors speak over a stream socket, each message preceded by its length; the zygote
over a socket that keeps messages apart, so that a file descriptor can travel with each.
"""

import asyncio
import math
import socket
import struct
import threading

import msgspec

from stoker.core.graph import (
    JobGraph,
)
from stoker.core.ids import AttemptId
from stoker.core.regions import Region
from stoker.core.results import Failure, Progress
from stoker.core.states import ExecutionState
from stoker.core.values import Value
from stoker.engine.lease import FOREVER, Lease
from stoker.engine.limits import RunnerLimits

_LENGTH = struct.Struct(">I")
LARGEST_MESSAGE = 256 * 1024 * 1024


class Prepare(Value, tag="prepare"):
    """Open the session."""

    url: str
    ui: str = ""
    """Where Spark's monitoring answers; empty when it is off."""
    scheduler_pool: str = ""
    """Spark's own pool for the session, so that its tasks get a fair share; empty: as it is."""
    template: str = ""
    """The session that it begins as a copy of, pool and all; empty: of none."""
    template_is_new: bool = False
    """Then the runner makes it."""
    warm: bool = True
    """Run a query in it: not in the session of a runner that died, nor when somebody waits."""
    tell_version: bool = True
    """Ask the server which Spark it is."""
    first: bool = False
    """At its server: ask Spark's monitoring too, whose first answer takes seconds."""
    server_pid: int = 0
    closed_mark: str = ""
    """The file that tells the server's warden that the session was closed; empty: none."""


class WarmUp(Value, tag="warm-up"):
    """Run a query, since nobody is in a hurry any more."""


class RunTask(Value, tag="run"):
    graph: JobGraph
    region: Region
    attempt: AttemptId
    directory: str
    materialized_root: str
    checkpoint_root: str
    artifacts: dict[str, str]
    python_path: tuple[str, ...] = ()
    """Directories with what was installed for the job."""
    limits: RunnerLimits | None = None
    resumed: Progress | None = None
    """The task's query runs already: watch it on, from what was known of it."""
    lease: Lease = FOREVER
    deaf_after: float = math.inf
    """Seconds after which Spark's tasks that go on are said to be deaf to their cancel."""


class Cancel(Value, tag="cancel"):
    pass


class LeaseRenewed(Value, tag="lease-renewed"):
    until: float


class Leave(Value, tag="leave"):
    """Nobody needs the runner any more: end the session, in which nothing runs, and go."""


class EndSession(Value, tag="end-session"):
    """To a janitor: make sure that nothing of this session runs on at the server."""

    url: str
    session_id: str
    ui: str = ""
    server_pid: int = 0
    deaf_after: float = math.inf


class Ready(Value, tag="ready"):
    spark_version: str = ""
    """Empty when it was not asked for."""


class NotReady(Value, tag="not-ready"):
    reason: str


class StateReport(Value, tag="state"):
    state: ExecutionState


class ProgressReport(Value, tag="progress"):
    progress: Progress


class Ended(Value, tag="ended"):
    state: ExecutionState
    failure: Failure | None = None
    progress: Progress = Progress()
    server_lost: bool = False
    """The failure is the loss of the Spark server, of which the task executor knows more."""


class SessionEnded(Value, tag="session-ended"):
    """Nothing of this session runs at the server any more."""

    session_id: str
    workers: str = ""
    """How Spark marks the Python workers of the session, which it keeps; empty: it has none."""
    is_as_new: bool = False
    """Nothing of the task is left in its process either: it waits for another `Prepare`."""


class SessionKept(Value, tag="session-kept"):
    """Nothing of the task is left, in its session as in its process: it waits for another one."""


class SessionNotEnded(Value, tag="session-not-ended"):
    session_id: str
    reason: str
    deaf: bool = False
    """Spark's tasks do not heed their cancel, and nothing but their process's end will end them."""


ToRunner = Prepare | WarmUp | RunTask | Cancel | LeaseRenewed | Leave | EndSession
FromRunner = (
    Ready
    | NotReady
    | StateReport
    | ProgressReport
    | Ended
    | SessionEnded
    | SessionKept
    | SessionNotEnded
)


class Fork(Value, tag="fork"):
    """To the zygote, with the runner's end of its socket and of two pipes: fork a process."""

    runner: int
    janitor: bool = False


class Kill(Value, tag="kill"):
    """To the zygote: kill the runner and every process of its group."""

    runner: int


class Forked(Value, tag="forked"):
    runner: int
    pid: int


class Exited(Value, tag="exited"):
    runner: int
    pid: int
    status: int
    """As `os.waitstatus_to_exitcode` gives it: negative is a signal."""


ToZygote = Fork | Kill
FromZygote = Forked | Exited

# To make one takes milliseconds, which each runner would spend anew.
_to_runner = msgspec.msgpack.Decoder(ToRunner)
_from_runner: msgspec.msgpack.Decoder[FromRunner] = msgspec.msgpack.Decoder(FromRunner)


def frame(message: msgspec.Struct) -> bytes:
    body = msgspec.msgpack.encode(message)
    if len(body) > LARGEST_MESSAGE:
        raise ValueError(f"a message of {len(body)} bytes is over {LARGEST_MESSAGE}")
    return _LENGTH.pack(len(body)) + body


class Deframer:
    """Cuts a stream of bytes into the bodies of messages, however the bytes arrive."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        self._buffer += data
        bodies: list[bytes] = []
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > LARGEST_MESSAGE:
                raise ValueError(f"a message of {length} bytes is over {LARGEST_MESSAGE}")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                break
            bodies.append(bytes(self._buffer[_LENGTH.size : end]))
            del self._buffer[:end]
        return bodies


class RunnerEnd:
    """The runner's side: blocking, and any thread may send."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._deframer = Deframer()
        self._received: list[ToRunner] = []

    def send(self, message: FromRunner) -> None:
        data = frame(message)
        with self._sending:
            self._connection.sendall(data)

    def receive(self) -> ToRunner | None:
        """The next message, or None when the task executor is gone."""
        while not self._received:
            data = self._connection.recv(1 << 20)
            if not data:
                return None
            self._received += [_to_runner.decode(body) for body in self._deframer.feed(data)]
        return self._received.pop(0)


async def receive(reader: asyncio.StreamReader) -> FromRunner | None:
    """The next message at the task executor's side, or None when the runner is gone."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        return _from_runner.decode(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None

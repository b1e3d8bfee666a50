"""Messages between the task executor and its runners, janitors, drivers and zygote.

Runners, janitors and drivers use a stream socket, where each message is preceded by its length. The
zygote uses a socket that keeps message boundaries, so that file descriptors can be sent with them.
Both sides are always of the same version: the task executor starts all of these processes.
"""

import asyncio
import math
import socket
import struct
import threading
from dataclasses import dataclass

import msgspec

from stoker.core.graph import JobGraph
from stoker.core.ids import AttemptId
from stoker.core.regions import Region
from stoker.core.results import Failure, Progress
from stoker.core.states import ExecutionState
from stoker.core.values import Value
from stoker.engine.lease import FOREVER, Lease
from stoker.engine.limits import RunnerLimits

_LENGTH = struct.Struct(">I")
LARGEST_MESSAGE = 256 * 1024 * 1024
LARGEST_REPORT = 16 * 1024 * 1024
"""What a child may send at once. It shares its process with user code, so it is not trusted."""


class Prepare(Value, tag="prepare"):
    """To a runner: open a session."""

    url: str
    ui: str = ""
    """URL of Spark's monitoring; empty when it is off."""
    scheduler_pool: str = ""
    """Spark scheduler pool of the session, for a fair share of cores; empty: the default one."""
    template: str = ""
    """Id of the session to copy, with its pool; empty: start a plain session."""
    is_template_new: bool = False
    """Whether the runner has to create the template first."""
    warm: bool = True
    """Run a query in the session, because the first query of a session is slow."""
    report_version: bool = True
    """Ask the server for its Spark version."""
    first: bool = False
    """First session of its server: read Spark's monitoring too, whose first answer is slow."""
    server_pid: int = 0
    """The server's process, among whose children are its Python workers; 0: unknown."""
    closed_marker: str = ""
    """File that tells the server's watchdog that the runner has closed a session by itself, when
    its lease had run out; empty: none."""


class WarmUp(Value, tag="warm-up"):
    """To a runner: run a query in the session now, since no task is waiting."""


class RunTask(Value, tag="run"):
    graph: JobGraph
    region: Region
    attempt: AttemptId
    directory: str
    materialized_root: str
    checkpoint_root: str
    artifacts: dict[str, str]
    rows_root: str = ""
    """URL of the directory for the rows that the queries of this attempt return."""
    python_path: tuple[str, ...] = ()
    """Directories with the packages installed for the job."""
    limits: RunnerLimits | None = None
    resumed: Progress | None = None
    """Last known progress of a query that runs already: only watch it."""
    lease: Lease = FOREVER
    uninterruptible_after: float = math.inf
    """Seconds after their cancellation from which tasks of Spark count as uninterruptible."""


class Cancel(Value, tag="cancel"):
    pass


class LeaseRenewed(Value, tag="lease-renewed"):
    until: float


class Leave(Value, tag="leave"):
    """To an idle runner that is not needed any more: end the session and exit."""


class EndSession(Value, tag="end-session"):
    """To a janitor: end all work of this session at the server."""

    url: str
    session_id: str
    ui: str = ""
    server_pid: int = 0
    uninterruptible_after: float = math.inf


class Ready(Value, tag="ready"):
    spark_version: str = ""
    """Empty when `Prepare.report_version` was not set."""


class NotReady(Value, tag="not-ready"):
    reason: str


class StateReport(Value, tag="state"):
    state: ExecutionState
    leaves_process_clean: bool = False
    """Believed in the first report about a task alone, which is sent before any of the job's code
    is loaded: that code is known to leave nothing in the process."""


class ProgressReport(Value, tag="progress"):
    progress: Progress


class Ended(Value, tag="ended"):
    state: ExecutionState
    failure: Failure | None = None
    progress: Progress = Progress()
    server_lost: bool = False
    """The failure may be due to the loss of the Spark server: the task executor checks that."""


class SessionEnded(Value, tag="session-ended"):
    """The session is closed and none of its work runs at the server."""

    session_id: str
    workers: str = ""
    """Mark of the session's Python workers, which Spark keeps running; empty: none are known."""
    is_reusable: bool = False
    """Nothing of the task is left in the process either: the runner waits for another `Prepare`."""


class SessionKept(Value, tag="session-kept"):
    """Nothing of the task is left in session or process: the runner waits for a `RunTask`."""


class SessionNotEnded(Value, tag="session-not-ended"):
    session_id: str
    reason: str
    uninterruptible: bool = False
    """Tasks of Spark ignore their cancellation: only the end of their process will end them."""


@dataclass(frozen=True, kw_only=True)
class Malformed:
    """What has arrived is no message of a child. Whatever follows cannot be read either."""

    reason: str


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


ZYGOTE_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""Environment variables that keep libraries from starting threads when the zygote imports them: a
child that is forked while other threads run may deadlock. Runners unset them."""


class Fork(Value, tag="fork"):
    """To the zygote, with the child's ends of a socket and two pipes: fork a runner or janitor."""

    runner: int
    janitor: bool = False


class Kill(Value, tag="kill"):
    """To the zygote: kill the runner or janitor and every process that it has started."""

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

# Creating a decoder takes milliseconds. The zygote creates them once, and runners inherit them.
_to_runner = msgspec.msgpack.Decoder(ToRunner)
_from_runner: msgspec.msgpack.Decoder[FromRunner] = msgspec.msgpack.Decoder(FromRunner)


def frame(message: msgspec.Struct) -> bytes:
    body = msgspec.msgpack.encode(message)
    if len(body) > LARGEST_MESSAGE:
        raise ValueError(f"a message of {len(body)} bytes is over {LARGEST_MESSAGE}")
    return _LENGTH.pack(len(body)) + body


class Deframer:
    """Splits a stream of bytes into message bodies."""

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
    """The child's end of the channel: blocking; any thread may send, one receives."""

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
        """Return the next message, or None when the task executor is gone."""
        while not self._received:
            try:
                data = self._connection.recv(1 << 20)
            except ConnectionError:
                # The task executor died before it had read all that this process has sent.
                return None
            if not data:
                return None
            self._received += [_to_runner.decode(body) for body in self._deframer.feed(data)]
        return self._received.pop(0)


async def receive(reader: asyncio.StreamReader) -> FromRunner | Malformed | None:
    """Return the next message from a child, or None when the child is gone."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if length > LARGEST_REPORT:
            return Malformed(
                reason=f"a message of {length} bytes, where {LARGEST_REPORT} are allowed"
            )
        return _from_runner.decode(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except msgspec.DecodeError as error:
        return Malformed(reason=str(error))

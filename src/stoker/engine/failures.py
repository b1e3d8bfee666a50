"""Turns the exception of a task into a Failure that the author of the job understands.

The author needs the frames of the job's own code, which stand between those of Stoker, PySpark and
the JVM. The job master needs to know whether a retry can help, and the task executor whether the
Spark server may be lost.
"""

import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path

import grpc
import py4j
import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    PySparkAttributeError,
    PySparkException,
    PySparkNotImplementedError,
    PySparkTypeError,
    PySparkValueError,
)
from pyspark.logger import PySparkLogger

import stoker
from stoker.core.errors import StokerError
from stoker.core.results import Failure
from stoker.engine.server_config import NOWHERE

_NOT_RETRIABLE = (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    PySparkAttributeError,
    PySparkNotImplementedError,
    PySparkTypeError,
    PySparkValueError,
    SyntaxError,
    ImportError,
)
_NOT_RETRIABLE_WORDS = re.compile(
    r"\[(UNRESOLVED_\w+|TABLE_OR_VIEW_NOT_FOUND|UNSUPPORTED_\w+|DATATYPE_MISMATCH|PARSE_\w+"
    r"|STATE_STORE_\w+_SCHEMA_NOT_COMPATIBLE"
    r"|STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA)[.\]]"
    r"|^(ModuleNotFoundError|ImportError|stoker\.engine\.failures\.CannotRun): ",
    re.MULTILINE,
)
_SPARK_MAY_HAVE_STOPPED = re.compile(
    r"stopped SparkContext|SparkContext (was|has been) shut ?down"
    # Spark reports the failed task first and exits a moment later, unless it caught the error.
    r"|java\.lang\.OutOfMemoryError"
)
_WORKER_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in ')
_CALL_SITE = re.compile(r"was called from\n(?P<file>[^\n]+):(?P<line>\d+)")
"""Where Spark tells which call of the user's code made the query."""
_NO_MODULE = re.compile(r"No module named '[\w.]+'")
_JVM_FRAME = re.compile(r"^\s*(at [\w.$/<>]+\(.*\)|\.\.\. \d+ more)\s*$")
_JVM_TRACE = "\n\nJVM stacktrace:"
_LIBRARIES = tuple(f"{library.__path__[0]}/" for library in (pyspark, grpc, py4j))
_LIBRARIES_ELSEWHERE = re.compile(
    r"(-packages|/python)/(pyspark|grpc|py4j)/|pyspark\.zip/|/py4j-[^/]+\.zip/"
)
"""The same libraries on other machines, where Spark may bring them as archives."""
_IN_NOWHERE = re.compile(rf"{NOWHERE}/([^\s:;,'\")]+)")
_MAX_JVM_FRAMES = 5
_MAX_MESSAGE_CHARACTERS = 20_000


class CannotRun(StokerError):
    """The task can never work as written; the message is for the author of the job."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error


def failure_of(
    error: BaseException, *, vertex: str = "", definition: str = "", line: str | None = None
) -> Failure:
    """The failure that describes this exception, with frames of the user's code first.

    `vertex` names the part of the job in which it arose, such as `transform 'adults'`, and
    `definition` the file and line of its function, for errors that bring no frames: over Spark
    Connect a column is looked up only after all functions have returned. `line` is the file and
    line at fault, if that is known better than the frames tell; with an empty one they tell
    nothing.
    """
    message = with_module_hint(_message_of(error), error)
    if line is None:
        line = place_of(error, message)
    kind = error.error if isinstance(error, CannotRun) else type(error).__name__
    is_of_spark = isinstance(error, (PySparkException, Py4JError))
    relative = _told_of_relative_path(message) if is_of_spark else None
    return Failure(
        error=kind if relative is None else "RelativePath",
        message=relative or message,
        stack_trace=_stack_trace_of(error, message),
        retriable=relative is None and not _cannot_succeed(error),
        labels=dict(getattr(error, "labels", {})),
        place=", ".join(filter(None, (vertex, line or definition))),
    )


MODULE_HINT = (
    "give it to the job with --py-file FILE.py or --wheel FILE.whl, or to a program with "
    "--requirements FILE; or install it on the task executors"
)


def with_module_hint(message: str, error: BaseException) -> str:
    """The message; if a module is missing, in this process or in a worker, with the remedy."""
    if MODULE_HINT in message or not (
        isinstance(error, ModuleNotFoundError) or "ModuleNotFoundError: " in message
    ):
        return message
    return _NO_MODULE.sub(lambda found: f"{found.group()}; {MODULE_HINT}", message, count=1)


def place_of(error: BaseException, message: str) -> str:
    """File and line of the user's code where it failed; empty if no frame of it is known."""
    for frame in map(_WORKER_FRAME.match, user_frames_in_worker_traceback(message)):
        if frame is not None:
            return f"{frame['file']} line {frame['line']}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if is_user_code(f.filename)]
    if frames:
        last = frames[-1]
        return f"{last.filename} line {last.lineno}" + (f": {last.line}" if last.line else "")
    call = _CALL_SITE.search(message)
    return f"{call['file']} line {call['line']}" if call and is_user_code(call["file"]) else ""


def keep_errors_out_of_output() -> None:
    """Keep PySpark from printing each error as a line of JSON, with the frames of the JVM.

    The same error is raised, and told to the user in words.
    """
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _cannot_succeed(error: BaseException) -> bool:
    """Whether a retry must fail in the same way.

    The failure of a query or of a Python worker names its cause only in its text.
    """
    if isinstance(error, (*_NOT_RETRIABLE, CannotRun)):
        return True
    return isinstance(error, PySparkException) and bool(_NOT_RETRIABLE_WORDS.search(str(error)))


def is_loss_of_server(error: BaseException | None) -> bool:
    """Whether the Spark server may be lost: it is out of reach, or Spark has stopped or will soon.

    The task executor then checks the server itself.
    """
    while error is not None:
        if isinstance(error, grpc.RpcError):
            code = getattr(error, "code", lambda: None)()
            return code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
        text = str(error)
        if "RETRIES_EXCEEDED" in text or "StatusCode.UNAVAILABLE" in text:
            return True
        if isinstance(error, PySparkException) and _SPARK_MAY_HAVE_STOPPED.search(text):
            return True
        error = error.__cause__ or error.__context__
    return False


def _message_of(error: BaseException) -> str:
    text = str(error).split(_JVM_TRACE)[0].strip() or repr(error)
    lines = [*_without_long_jvm_traces(text.splitlines()), *getattr(error, "__notes__", ())]
    return shortened("\n".join(lines))


def _told_of_relative_path(message: str) -> str | None:
    """The message of an error about a relative path that Spark was given; None for any other.

    It begins with the cause, because Spark and Hadoop tell only the directory in which Spark
    itself works, and that nothing can be made there.
    """
    found = _IN_NOWHERE.search(message)
    if found is None:
        return None
    path = found[1].partition("/_temporary")[0]
    return (
        f"Spark was given the relative path {path}, and does not know what it refers to: the job "
        "was not submitted from a directory on this machine (as a program that is uploaded), or "
        "the path is computed inside Spark (as by EXECUTE IMMEDIATE); name an absolute path or a "
        f"URL\n\n{message}"
    )


def shortened(text: str) -> str:
    if len(text) <= _MAX_MESSAGE_CHARACTERS:
        return text
    return (
        text[:_MAX_MESSAGE_CHARACTERS]
        + f"\n[{len(text) - _MAX_MESSAGE_CHARACTERS} more characters]"
    )


def _without_long_jvm_traces(lines: Iterable[str]) -> list[str]:
    kept: list[str] = []
    run = 0
    for line in lines:
        run = run + 1 if _JVM_FRAME.match(line) else 0
        if run <= _MAX_JVM_FRAMES:
            kept.append(line)
    return kept


def _stack_trace_of(error: BaseException, message: str) -> str:
    parts: list[str] = []
    if worker_frames := user_frames_in_worker_traceback(message):
        parts.append("In a Spark worker (most recent call first):\n" + "\n".join(worker_frames))
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if is_user_code(frame.filename)
    ]
    if frames:
        listing = "".join(traceback.format_list(reversed(frames)))
        parts.append("In the job's code (most recent call first):\n" + listing.rstrip())
    parts.append(f"{type(error).__name__}: {message}")
    cause = error.__cause__
    if cause is not None and not isinstance(error, PySparkException):
        parts.append("Caused by " + _stack_trace_of(cause, _message_of(cause)))
    return "\n".join(parts)


def user_frames_in_worker_traceback(message: str) -> list[str]:
    """The frames of user code in a Python worker's traceback, innermost first."""
    lines = message.splitlines()
    frames: list[str] = []
    for index, line in enumerate(lines):
        match = _WORKER_FRAME.match(line)
        if match is None or not is_user_code(match["file"]):
            continue
        frame = [line]
        following = lines[index + 1] if index + 1 < len(lines) else ""
        if following.startswith("    ") and _WORKER_FRAME.match(following) is None:
            frame.append(following)
        frames.append("\n".join(frame))
    return frames[::-1]


def is_user_code(filename: str) -> bool:
    """Whether this file belongs neither to Stoker, nor to PySpark, nor to Python itself."""
    if filename.startswith("<frozen"):
        return False
    if filename.startswith(_LIBRARIES) or _LIBRARIES_ELSEWHERE.search(filename):
        return False
    own = (str(Path(stoker.__file__).parent), sysconfig.get_path("stdlib"), sys.base_prefix)
    if any(filename.startswith(prefix + "/") for prefix in own):
        return "site-packages" in filename and not filename.startswith(own[0])
    return True

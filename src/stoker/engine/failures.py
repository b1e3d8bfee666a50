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

import stoker
from stoker.core.errors import StokerError
from stoker.core.results import Failure

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
    r"\[(UNRESOLVED_\w+|TABLE_OR_VIEW_NOT_FOUND|UNSUPPORTED_\w+|DATATYPE_MISMATCH|PARSE_\w+)[.\]]"
    r"|^(ModuleNotFoundError|ImportError): ",
    re.MULTILINE,
)
_SPARK_MAY_HAVE_STOPPED = re.compile(
    r"stopped SparkContext|SparkContext (was|has been) shut ?down"
    # Spark reports the failed task first and exits a moment later, unless it caught the error.
    r"|java\.lang\.OutOfMemoryError"
)
_WORKER_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line \d+, in ')
_JVM_FRAME = re.compile(r"^\s*(at [\w.$/<>]+\(.*\)|\.\.\. \d+ more)\s*$")
_JVM_TRACE = "\n\nJVM stacktrace:"
_MAX_JVM_FRAMES = 5
_MAX_MESSAGE_CHARACTERS = 20_000


class CannotRun(StokerError):
    """The task can never work as written; the message is for the author of the job."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error


def failure_of(error: BaseException) -> Failure:
    """The failure that describes this exception, with frames of the user's code first."""
    message = _message_of(error)
    return Failure(
        error=error.error if isinstance(error, CannotRun) else type(error).__name__,
        message=message,
        stack_trace=_stack_trace_of(error, message),
        retriable=not _cannot_succeed(error),
        labels=dict(getattr(error, "labels", {})),
    )


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
    if any(part in filename for part in ("/pyspark/", "/grpc/", "pyspark.zip/", "/py4j/")):
        return False
    own = (str(Path(stoker.__file__).parent), sysconfig.get_path("stdlib"), sys.base_prefix)
    if any(filename.startswith(prefix + "/") for prefix in own):
        return "site-packages" in filename and not filename.startswith(own[0])
    return True

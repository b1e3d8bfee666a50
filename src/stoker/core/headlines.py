"""The cause of a failure in a sentence, out of a message that may be pages long.

Spark adds the plan of a query, the traceback of a Python worker and frames of the JVM to its
messages. All of it is kept in the failure; this is what users read first.
"""

import re

from stoker.core.results import Failure

_WORKER_TRACEBACK = "Traceback (most recent call last):"
_ERROR_LINE = re.compile(r"^(\w[\w.]*)(: .*)?$")
"""The line of a traceback that names the exception; frames are indented."""
_SQL_STATE = re.compile(r"\s*SQLSTATE: \w{5}.*$")
_PLAN = re.compile(r"^('|\+- |:- |\s*!?\w[\w ]*\[|== )")
"""How a line of Spark begins that belongs to the plan of a query or to its context."""
_MOST_LINES = 8


def headline_of(failure: Failure) -> str:
    """The kind of error and what it says, without plans, frames and SQL states."""
    error = _error_in_worker(failure.message)
    if error is not None:
        return error
    lines = failure.message.strip().splitlines()
    shown: list[str] = []
    for line in lines[:_MOST_LINES]:
        if shown and (_PLAN.match(line) or not line.strip()):
            break
        shown.append(_SQL_STATE.sub("", line).rstrip().rstrip(";"))
    return f"{failure.error}: {chr(10).join(shown)}".strip()


def _error_in_worker(message: str) -> str | None:
    """The exception that a Python worker of Spark reports; None if there is none."""
    _, found, traceback = message.rpartition(_WORKER_TRACEBACK)
    if not found:
        return None
    lines = traceback.splitlines()
    for number, line in enumerate(lines):
        if _ERROR_LINE.match(line):
            return "\n".join(_paragraph(lines[number:]))
    return None


def _paragraph(lines: list[str]) -> list[str]:
    found: list[str] = []
    for line in lines[:_MOST_LINES]:
        if not line.strip() or line.startswith("JVM stacktrace"):
            break
        found.append(_SQL_STATE.sub("", line).rstrip())
    return [line for line in found if line]

"""The cause of a failure in a sentence, out of a message that may be pages long.

Spark adds the plan of a query, the traceback of a Python worker and frames of the JVM to its
messages. All of it is kept in the failure; this is what users read first. For a fault in SQL it
ends with the line of the query and a mark below the word.
"""

import itertools
import re
from dataclasses import dataclass

from stoker.core.results import Failure

_WORKER_TRACEBACK = "Traceback (most recent call last):"
_ERROR_LINE = re.compile(r"^(\w[\w.]*)(: .*)?$")
"""The line of a traceback that names the exception; frames are indented."""
_SQL_STATE = re.compile(r"\s*SQLSTATE: \w{5}.*$")
_PLAN = re.compile(r"^('|\+- |:- |\s*!?\w[\w ]*\[|={2,3} )")
"""How a line of Spark begins that belongs to the plan of a query or to its context."""
_STREAM_FAILED = re.compile(r"^\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: ")
"""How Spark introduces the cause of the failure of a streaming query."""
_SQL_CONTEXT = re.compile(r"^== SQL(?! of)[^\n]*==\n", re.MULTILINE)
"""The line of Spark before the text of a query; that of a view has its name in it."""
_CARETS = re.compile(r"^[-\s]*(\^+)\s*$")
_POSITION = re.compile(
    r"\(line (\d+), pos (\d+)\)"
    r"|; line (\d+) pos (\d+)\b"
    r"|^== SQL \(line (\d+), position (\d+)\) ==$",
    re.MULTILINE,
)
"""The forms in which Spark tells a position; only in the last one columns begin at 1."""
_MOST_LINES = 8
_WIDEST = 100
"""Characters of a line of SQL that are shown."""


@dataclass(frozen=True, kw_only=True)
class SqlPosition:
    """A place in the text of a query; lines and columns begin at 1."""

    line: int
    column: int


def sql_position(message: str) -> SqlPosition | None:
    """Where in a query Spark found the fault; None if its message does not tell."""
    found = _POSITION.search(message)
    if found is None:
        return None
    line, column = (int(each) for each in found.groups() if each is not None)
    return SqlPosition(line=line, column=column if found[5] else column + 1)


def sql_context(query: str, position: SqlPosition) -> str:
    """The place in the query in the form in which Spark adds it to some of its messages."""
    lines = query.splitlines()
    line = lines[position.line - 1] if position.line <= len(lines) else ""
    before = position.column - 1
    word = re.match(r"\w+|.?", line[before:])
    marks = "^" * max(1, len(word[0]) if word else 1)
    return (
        f"== SQL (line {position.line}, position {position.column}) ==\n{line}\n"
        f"{' ' * before}{marks}"
    )


def headline_of(failure: Failure) -> str:
    """The kind of error and what it says, without plans, frames and SQL states."""
    error = _error_in_worker(failure.message)
    if error is not None:
        return error
    lines = _STREAM_FAILED.sub("", failure.message.strip(), count=1).splitlines()
    shown: list[str] = []
    for line in lines[:_MOST_LINES]:
        if shown and (_PLAN.match(line) or not line.strip()):
            break
        shown.append(_SQL_STATE.sub("", line).rstrip().rstrip(";"))
    return "\n".join([f"{failure.error}: {chr(10).join(shown)}".strip(), *_excerpt(failure)])


def _excerpt(failure: Failure) -> list[str]:
    """The line of the query with a mark below the fault; empty if the message has no query."""
    _, *contexts = _SQL_CONTEXT.split(failure.message, maxsplit=1)
    lines = contexts[0].splitlines() if contexts else []
    for line, below in itertools.pairwise(lines):
        if carets := _CARETS.match(below):
            start, end = carets.span(1)
            cut = max(0, end - _WIDEST)
            position = sql_position(failure.message)
            # The place of the failure tells the position in the file, if that is known.
            label = []
            if position is not None and " column " not in failure.place:
                label = [f"at line {position.line}, column {position.column}:"]
            return [
                *label,
                f"    {line[cut : cut + _WIDEST]}",
                f"    {' ' * (start - cut)}{carets[1]}",
            ]
    return []


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

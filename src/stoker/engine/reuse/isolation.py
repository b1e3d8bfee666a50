"""How far a task's session is isolated from the sessions of other jobs.

Spark can give each session its own class loader, which keeps the dependencies of two jobs apart.
The price: Spark compiles a query once for each loader, which takes longer than a small query runs.
A task that brings neither files nor code to Spark has nothing to keep apart and can share a loader.

Invariant: a task shares only if everything in it is known to be harmless.
"""

import enum
import re
from typing import Protocol

from stoker.core.graph import (
    FormatRead,
    FormatWrite,
    JobGraph,
    PythonFunction,
    Sink,
    Source,
    Sql,
    SqlScript,
    Transform,
    Vertex,
)
from stoker.core.regions import Region
from stoker.engine.reuse.sql import calls_only_spark, relations_in


class Isolation(enum.Enum):
    SHARED = "shared"
    UNDECIDED = "undecided"
    """The job's own code has to run first; then the plan that the code makes decides."""
    DEDICATED = "dedicated"


class TaskDescription(Protocol):
    @property
    def graph(self) -> JobGraph: ...
    @property
    def region(self) -> Region: ...
    @property
    def python_path(self) -> tuple[str, ...]: ...


_FORMATS = frozenset(
    {"avro", "binaryfile", "console", "csv", "jdbc", "json", "noop", "orc", "parquet", "text"}
)
"""Formats built into Spark; another name may be a data source written in Python."""
_HARMLESS_STATEMENTS = re.compile(
    r"\s*\(*\s*(select|with|values|from|table|insert|truncate|delete|update|merge|show|describe|"
    r"explain|use|(create|create\s+or\s+replace|drop)\s+((global\s+)?temp(orary)?\s+)?"
    r"(table|view|database|schema))\b",
    re.IGNORECASE,
)
_SUSPICIOUS = re.compile(
    r"\b(add|archive|class|file|files|function|jar|jars|java_method|load|python|reflect|set|"
    r"transform|try_reflect|using)\b",
    re.IGNORECASE,
)
"""Words of statements that bring code to Spark or call it.

A harmless statement that contains such a word only loses a little time.
"""


def isolation_of(task: TaskDescription) -> Isolation:
    """Decide from the description of the task, before any of its code runs."""
    graph, region = task.graph, task.region
    if region.streaming or graph.artifacts or task.python_path:
        # A stream outlives its runner, so what it needs later counts as well.
        return Isolation.DEDICATED
    needs = {_isolation_of_vertex(graph.vertex(name)) for name in region.vertices}
    if Isolation.DEDICATED in needs:
        return Isolation.DEDICATED
    return Isolation.UNDECIDED if Isolation.UNDECIDED in needs else Isolation.SHARED


def _isolation_of_vertex(vertex: Vertex) -> Isolation:
    match vertex:
        case Source(read=PythonFunction()) | Transform(compute=PythonFunction()):
            return Isolation.UNDECIDED
        case Source(read=FormatRead() as read):
            return _shared_if(is_builtin_format(read.format) or read.table is not None)
        case Source(read=Sql() as sql) | Transform(compute=Sql() as sql):
            return _shared_if(is_code_free_sql(sql.query))
        case Sink(write=FormatWrite() as write):
            return _shared_if(is_builtin_format(write.format) or write.table is not None)
        case SqlScript():
            return _shared_if(all(map(is_code_free_sql, vertex.statements)))
        case _:
            # Programs, Python sinks, and kinds of vertices that are added later.
            return Isolation.DEDICATED


def changes_session(vertex: Vertex) -> bool:
    """Whether the vertex may leave something in its session that the next task would see.

    SQL may create views or choose a database. A session remembers a table that was read or written
    by name, with the files of that moment, and must not serve these to a later task. Queries that
    read the job's own frames leave nothing: those are views, and are dropped with the task. For
    Python functions the plan of the action decides (`names_a_table`).
    """
    match vertex:
        case Source(read=FormatRead(table=None)) | Sink(write=FormatWrite(table=None)):
            return False
        case Source(read=PythonFunction()) | Transform(compute=PythonFunction()):
            return False
        case Source(read=Sql() as sql):
            return relations_in(sql.query) != frozenset()
        case Transform(compute=Sql() as sql, inputs=inputs):
            named = relations_in(sql.query)
            return named is None or not named <= {name.lower() for name in inputs}
        case _:
            return True


def _shared_if(is_harmless: bool) -> Isolation:
    return Isolation.SHARED if is_harmless else Isolation.DEDICATED


def is_builtin_format(name: str | None) -> bool:
    return name is None or name.lower() in _FORMATS


def is_code_free_sql(text: str) -> bool:
    return bool(_HARMLESS_STATEMENTS.match(text)) and is_code_free_expression(text)


def is_code_free_expression(text: str) -> bool:
    return not _SUSPICIOUS.search(text) and calls_only_spark(text)

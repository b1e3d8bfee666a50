"""Which tasks may share the driver's classes with those of other jobs. Pure.

Spark can give each session a class loader, files and Python workers of its own. That is what keeps
the dependencies of two jobs apart; but then each session also compiles its queries anew, which
takes longer than a small one needs to run. A task that brings neither files nor Python code to
Spark has nothing to be kept apart, and does without a loader of its own.
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
    OPEN = "open"
    """Its own code runs first, and its plan will tell."""
    OWN = "own"


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
"""Spark's own; another name may be that of a data source in Python."""
_BEGINNINGS = re.compile(
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
"""Words of statements that bring code to Spark, or call it; that they also stand in others costs
those a little time."""


def isolation_of(task: TaskDescription) -> Isolation:
    """Before anything of the task has run."""
    graph, region = task.graph, task.region
    if region.streaming or graph.artifacts or task.python_path:
        # A stream outlives its runner, so what it may turn out to need later counts as well.
        return Isolation.OWN
    needs = {_needs(graph.vertex(name)) for name in region.vertices}
    if Isolation.OWN in needs:
        return Isolation.OWN
    return Isolation.OPEN if Isolation.OPEN in needs else Isolation.SHARED


def _needs(vertex: Vertex) -> Isolation:
    match vertex:
        case Source(read=PythonFunction()) | Transform(compute=PythonFunction()):
            return Isolation.OPEN
        case Source(read=FormatRead() as read):
            return _if(is_builtin_format(read.format) or read.table is not None)
        case Source(read=Sql() as sql) | Transform(compute=Sql() as sql):
            return _if(is_code_free_sql(sql.query))
        case Sink(write=FormatWrite() as write):
            return _if(is_builtin_format(write.format) or write.table is not None)
        case SqlScript():
            return _if(all(map(is_code_free_sql, vertex.statements)))
        case _:
            # Programs, sinks that are functions, and whatever is new.
            return Isolation.OWN


def changes_session(vertex: Vertex) -> bool:
    """Whether something of it may stay there, in what Spark keeps for a session.

    SQL may make views, or choose a database. A table that was read or written by its name stays
    known with the files that it had then, and whoever reads it next must not get those. Not so the
    frames that a query reads by their names, which are views that end with the task. Of what Python
    functions describe, the plan tells.
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


def _if(plain: bool) -> Isolation:
    return Isolation.SHARED if plain else Isolation.OWN


def is_builtin_format(name: str | None) -> bool:
    return name is None or name.lower() in _FORMATS


def is_code_free_sql(text: str) -> bool:
    return bool(_BEGINNINGS.match(text)) and is_code_free_expression(text)


def is_code_free_expression(text: str) -> bool:
    return not _SUSPICIOUS.search(text) and calls_only_spark(text)

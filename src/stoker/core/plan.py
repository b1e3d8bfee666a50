"""A graph as it is shown to people: what each vertex does, in a line."""

import shlex

from stoker.core.graph import (
    FormatRead,
    FormatWrite,
    JobGraph,
    Program,
    PythonFunction,
    Sink,
    Source,
    Sql,
    SqlScript,
    Transform,
    Vertex,
    engine_of,
    inputs_of,
)
from stoker.core.regions import topological
from stoker.core.results import PlanVertex


def plan_of(graph: JobGraph) -> tuple[PlanVertex, ...]:
    return tuple(
        PlanVertex(
            name=vertex.name,
            kind=kind_of(vertex),
            inputs=inputs_of(vertex),
            description=description_of(vertex),
        )
        for vertex in topological(graph)
    )


def engine_text(graph: JobGraph) -> str:
    """The job's engine, and why if it was chosen automatically."""
    reason = f": {graph.engine_reason}" if graph.engine_reason else ""
    return f"{engine_of(graph)}{reason}"


def kind_of(vertex: Vertex) -> str:
    match vertex:
        case Source():
            return "source"
        case Transform():
            return "transform"
        case Sink():
            return "sink"
        case SqlScript():
            return "script"
        case Program():
            return "program"


def description_of(vertex: Vertex) -> str:
    match vertex:
        case Source(read=work) | Transform(compute=work) | Sink(write=work):
            return _work(work)
        case SqlScript(statements=statements):
            return f"{len(statements)} SQL statement{'s' if len(statements) != 1 else ''}"
        case Program(script=script, arguments=arguments):
            return shlex.join([script, *arguments])


def _work(work: FormatRead | FormatWrite | Sql | PythonFunction) -> str:
    match work:
        case (
            FormatRead(format=name, path=path, table=table)
            | FormatWrite(format=name, path=path, table=table)
        ):
            place = table or path
            return f"{name} {place}" if place else name
        case Sql(query=query):
            return " ".join(query.split())
        case PythonFunction(name=name):
            return f"{name}()"

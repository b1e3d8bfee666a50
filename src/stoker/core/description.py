"""Descriptions of a job graph: trees for people, a line for each vertex, and JSON."""

import shlex
from collections.abc import Iterator, Mapping

import msgspec

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
    is_materialized,
)
from stoker.core.regions import Region, regions_of, topological
from stoker.core.results import PlanVertex
from stoker.core.secrets import MASK, is_secret

_WIDEST_TEXT = 90


def to_json(graph: JobGraph, *, indent: int | None = None) -> bytes:
    """The whole graph, with the bytes of functions as base64. Secrets are not masked."""
    encoded = msgspec.json.encode(graph)
    return encoded if indent is None else msgspec.json.format(encoded, indent=indent)


def describe(graph: JobGraph) -> str:
    """The text of `stoker info`: the job, then each region as a tree with its end at the root."""
    return "\n".join([*_job_lines(graph), *_region_lines(graph)]) + "\n"


def _job_lines(graph: JobGraph) -> Iterator[str]:
    yield f"{graph.name}  ({graph.job_type.lower()})"
    yield from _table("parameters", graph.parameters)
    yield from _table("configuration", graph.configuration)
    if graph.restart is not None:
        yield f"restart: {_restart(graph)}"
    if graph.artifacts:
        yield "artifacts:"
        for artifact in graph.artifacts:
            yield (
                f"  {artifact.name}  {artifact.kind}, {_size(artifact.size)}, "
                f"sha256 {artifact.sha256[:12]}…"
            )
    if graph.environment is not None:
        libraries = "".join(f", {n} {v}" for n, v in sorted(graph.environment.libraries.items()))
        yield f"environment: Python {graph.environment.python}{libraries}"


def _restart(graph: JobGraph) -> str:
    assert graph.restart is not None
    policy = graph.restart
    if policy.strategy == "none":
        return "none"
    if policy.strategy == "failure-rate":
        rate = f"{policy.max_failures} failures in {policy.interval_seconds:g} s"
        return f"{policy.strategy}, at most {rate}, each after {policy.delay_seconds:g} s"
    if policy.strategy == "exponential-delay":
        return f"{policy.strategy}, {policy.delay_seconds:g} s to {policy.max_delay_seconds:g} s"
    restarts = f"at most {policy.attempts} restart{'s' if policy.attempts != 1 else ''}"
    return f"{policy.strategy}, {restarts}, each after {policy.delay_seconds:g} s"


def _region_lines(graph: JobGraph) -> Iterator[str]:
    by_name = {vertex.name: vertex for vertex in graph.vertices}
    regions = regions_of(graph)
    for number, region in enumerate(regions, start=1):
        kind = "streaming" if region.streaming else "batch"
        yield ""
        yield f"region {number} of {len(regions)}: {region.id}  ({kind})"
        yield from _tree(region, by_name)


def _tree(region: Region, by_name: Mapping[str, Vertex]) -> Iterator[str]:
    shown: set[str] = set()
    # Entries: vertex name, prefix of its line, prefix of the lines below it.
    waiting: list[tuple[str, str, str]] = [(str(region.id), "  ", "  ")]
    while waiting:
        name, first, rest = waiting.pop()
        vertex = by_name[name]
        if name in shown:
            yield f"{first}{name}  (above)"
            continue
        shown.add(name)
        if name != region.id and is_materialized(vertex):
            yield f"{first}{name}  reads the materialized result"
            continue
        yield f"{first}{name}  {_vertex_text(vertex)}"
        inputs = inputs_of(vertex)
        below = [
            (child, f"{rest}{'└─ ' if last else '├─ '}", f"{rest}{'   ' if last else '│  '}")
            for child, last in ((c, i == len(inputs) - 1) for i, c in enumerate(inputs))
        ]
        waiting.extend(reversed(below))


def _vertex_text(vertex: Vertex) -> str:
    facts = [f"{kind_of(vertex)}: {_shortened(_work_text(vertex))}"]
    match vertex:
        case Source(read=FormatRead(options=options)) | Sink(write=FormatWrite(options=options)):
            facts += [f"{key}={_redacted(key, value)}" for key, value in sorted(options.items())]
        case _:
            pass
    if isinstance(vertex, Source) and vertex.streaming:
        facts.append("streaming")
    if is_materialized(vertex):
        facts.append("materialized")
    if isinstance(vertex, Sink):
        facts += [f"mode {vertex.mode}"] if vertex.mode else []
        facts += [f"trigger {vertex.trigger}"] if vertex.trigger else []
    return ", ".join(facts)


def _work_text(vertex: Vertex) -> str:
    match vertex:
        case (
            Source(read=PythonFunction() as function)
            | Transform(compute=PythonFunction() as function)
            | Sink(write=PythonFunction() as function)
        ):
            return f"function {function.name}, {_size(len(function.payload))}"
        case Source() | Transform() | Sink() | SqlScript() | Program():
            return description_of(vertex)


def _table(title: str, entries: Mapping[str, str]) -> Iterator[str]:
    if entries:
        yield f"{title}:"
        yield from (f"  {key} = {_redacted(key, entries[key])}" for key in sorted(entries))


def _redacted(key: str, value: str) -> str:
    return MASK if is_secret(key) else value


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDEST_TEXT else f"{text[: _WIDEST_TEXT - 1]}…"


def _size(size: int) -> str:
    if size < 1024:
        return f"{size} bytes"
    return f"{size / 1024:.1f} KiB" if size < 2**20 else f"{size / 2**20:.1f} MiB"


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
    """The job's engine, and the reason if it was chosen automatically."""
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

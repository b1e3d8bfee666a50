"""Checks of each vertex: its format, options, mode, trigger and function, or its program."""

import re
from collections.abc import Iterator, Mapping

from stoker.core.checks.structure import RESERVED_NAMES, ancestors, place_of
from stoker.core.faults import Fault, closest, did_you_mean
from stoker.core.formats import KNOWN_FORMATS, Format, known_format
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
)
from stoker.core.triggers import TRIGGER_FORMS, parse_trigger

BATCH_MODES = ("append", "overwrite", "ignore", "errorifexists")
STREAMING_MODES = ("append", "update", "complete")
_SCHEMA_INFERENCE = "spark.sql.streaming.schemaInference"


def vertex_faults(graph: JobGraph) -> Iterator[Fault]:
    by_name = {vertex.name: vertex for vertex in graph.vertices}
    for vertex in graph.vertices:
        place = place_of(vertex)
        match vertex:
            case Source():
                yield from _source_faults(place, vertex, graph.configuration)
            case Transform():
                yield from _compute_faults(place, vertex)
            case Sink():
                yield from _sink_faults(place, vertex, by_name)
            case SqlScript():
                if not any(statement.strip() for statement in vertex.statements):
                    yield Fault(place, "it has no statement", "write at least one statement")
            case Program():
                yield from program_faults(place, vertex, graph)
        if isinstance(vertex, Source | Transform) and vertex.materialized:
            yield from _materialized_faults(place, vertex.name, by_name)


def is_streaming(sink: Sink, by_name: Mapping[str, Vertex]) -> bool:
    return sink.trigger is not None or _reads_a_stream(sink.name, by_name)


def _reads_a_stream(name: str, by_name: Mapping[str, Vertex]) -> bool:
    needed = (by_name[ancestor] for ancestor in ancestors(name, by_name))
    return any(isinstance(vertex, Source) and vertex.streaming for vertex in needed)


def _may_read_a_stream(name: str, by_name: Mapping[str, Vertex]) -> bool:
    """True also for a function or query that could open a stream: that shows only when it runs."""
    for vertex in map(by_name.__getitem__, ancestors(name, by_name)):
        match vertex:
            case Source(streaming=True) | Source(read=PythonFunction() | Sql()):
                return True
            case Transform(compute=PythonFunction(parameters=names)) if "spark" in names:
                return True
            case _:
                pass
    return False


def _materialized_faults(place: str, name: str, by_name: Mapping[str, Vertex]) -> Iterator[Fault]:
    if _reads_a_stream(name, by_name):
        yield Fault(
            place,
            "a stream never ends, so it cannot be materialized",
            "drop 'materialized', or write it with a sink and read that in another job",
        )


def _source_faults(place: str, source: Source, configuration: Mapping[str, str]) -> Iterator[Fault]:
    match source.read:
        case PythonFunction() as function:
            yield from _unfilled_parameters(place, function, ())
        case Sql(query=query):
            yield from _query_faults(place, query)
        case FormatRead() as read:
            yield from _read_faults(place, read, source.streaming, configuration)


def _compute_faults(place: str, transform: Transform) -> Iterator[Fault]:
    match transform.compute:
        case PythonFunction() as function:
            yield from _unfilled_parameters(place, function, transform.inputs)
        case Sql(query=query):
            yield from _query_faults(place, query)


def _unfilled_parameters(
    place: str, function: PythonFunction, inputs: tuple[str, ...]
) -> Iterator[Fault]:
    for parameter in function.parameters:
        if parameter not in RESERVED_NAMES and parameter not in inputs:
            known = sorted(RESERVED_NAMES.union(inputs))
            yield Fault(
                place,
                f"function '{function.name}' has the parameter '{parameter}', which nothing fills",
                f"it can take {', '.join(known)}",
            )


def _query_faults(place: str, query: str) -> Iterator[Fault]:
    if not query.strip():
        yield Fault(place, "the SQL query is empty", "write a SELECT")


def _read_faults(
    place: str, read: FormatRead, streaming: bool, configuration: Mapping[str, str]
) -> Iterator[Fault]:
    known = known_format(read.format)
    if known is None:
        yield from _format_typo(place, read.format)
        return
    if known.read is None:
        yield Fault(place, f"format {known.name} cannot be read", "choose another format")
        return
    yield from _option_faults(place, known, known.read, known.needed_read, read.options)
    if known.files and not read.path and read.table is None:
        yield Fault(place, f"format {known.name} needs a path", "give path=")
    if streaming and not known.streaming_read:
        yield Fault(
            place,
            f"format {known.name} cannot be read as a stream",
            "drop 'streaming', or choose another format",
        )
    if not streaming and not known.batch:
        yield Fault(
            place, f"format {known.name} is always a stream", "mark the source as streaming"
        )
    inferred = configuration.get(_SCHEMA_INFERENCE, "").lower() == "true"
    needs_schema = known.files and not known.fixed_schema and read.table is None
    if streaming and needs_schema and not (read.schema or inferred):
        yield Fault(
            place,
            f"a stream of {known.name} files needs a schema",
            "give schema=, for example 'id LONG, at TIMESTAMP'",
        )


def _sink_faults(place: str, sink: Sink, by_name: Mapping[str, Vertex]) -> Iterator[Fault]:
    streaming = is_streaming(sink, by_name)
    if sink.trigger is not None:
        yield from _trigger_faults(place, sink, by_name)
    known = known_format(sink.write.format) if isinstance(sink.write, FormatWrite) else None
    yield from _mode_faults(place, sink.mode, streaming, known)
    if isinstance(sink.write, PythonFunction):
        yield from _sink_function_faults(place, sink.write, streaming)
        return
    if known is None:
        yield from _format_typo(place, sink.write.format)
        return
    if known.write is None:
        yield Fault(place, f"format {known.name} cannot be written", "choose another format")
        return
    yield from _write_faults(place, sink.write, known, known.write, streaming)


def _trigger_faults(place: str, sink: Sink, by_name: Mapping[str, Vertex]) -> Iterator[Fault]:
    try:
        parse_trigger(sink.trigger or "")
    except ValueError as error:
        yield Fault(place, f"bad trigger: {error}", f"write {TRIGGER_FORMS}")
    if not _may_read_a_stream(sink.name, by_name):
        yield Fault(
            place,
            "it has a trigger, but it reads no stream",
            "mark a source as streaming, or drop the trigger",
        )


def _mode_faults(
    place: str, mode: str | None, streaming: bool, known: Format | None
) -> Iterator[Fault]:
    if mode is None:
        return
    kind, allowed = ("streaming", STREAMING_MODES) if streaming else ("batch", BATCH_MODES)
    if mode not in allowed:
        other = STREAMING_MODES if kind == "batch" else BATCH_MODES
        if mode in other:
            remedy = f"a {kind} sink takes {', '.join(allowed)}"
            if kind == "batch":
                remedy += "; a trigger, or a source marked as streaming, makes it a streaming one"
        else:
            suggestion = closest(mode, allowed)
            hint = f"did you mean '{suggestion}'? " if suggestion else ""
            remedy = f"{hint}a {kind} sink takes {', '.join(allowed)}"
        yield Fault(place, f"mode '{mode}' is not for a {kind} sink", remedy)
    elif streaming and known and known.streaming_write and mode not in known.streaming_modes:
        yield Fault(
            place,
            f"a streaming sink of format {known.name} cannot write in mode '{mode}'",
            f"use {' or '.join(known.streaming_modes)}, or a function of (df, batch_id)",
        )


def _sink_function_faults(place: str, function: PythonFunction, streaming: bool) -> Iterator[Fault]:
    # Spark calls it with exactly these arguments; others are bound before it is pickled.
    count = len(function.parameters)
    if count == 0:
        return
    if streaming and count != 2:
        yield Fault(
            place,
            f"function '{function.name}' of a streaming sink takes {count} arguments",
            "write it as a function of (df, batch_id)",
        )
    if not streaming and count != 1:
        yield Fault(
            place,
            f"function '{function.name}' of a batch sink takes {count} arguments",
            "write it as a function of (df); for a stream, give a trigger or mark the source "
            "as streaming",
        )


def _write_faults(
    place: str, write: FormatWrite, known: Format, options: frozenset[str], streaming: bool
) -> Iterator[Fault]:
    yield from _option_faults(place, known, options, known.needed_write, write.options)
    if known.files and not write.path and write.table is None:
        yield Fault(place, f"format {known.name} needs a path", "give path= or table=")
    if streaming and not known.streaming_write:
        yield Fault(
            place,
            f"Spark has no streaming sink of format {known.name}",
            "write it with a function of (df, batch_id)",
        )
    if not streaming and not known.batch:
        yield Fault(place, f"format {known.name} is for streams only", "choose another format")


def _option_faults(
    place: str,
    known: Format,
    options: frozenset[str],
    needed: tuple[tuple[str, ...], ...],
    given: Mapping[str, str],
) -> Iterator[Fault]:
    folded = {option.lower() for option in options}
    for option in given:
        lowered = option.lower()
        if lowered in folded:
            continue
        if lowered == "checkpointlocation":
            yield Fault(
                place,
                "a sink cannot set the option 'checkpointLocation'",
                "drop it: Stoker keeps the checkpoint of each streaming sink",
            )
        elif lowered == "path":
            yield Fault(place, "'path' is given as an option", "give path= instead")
        elif known.open_prefix is not None and lowered.startswith(known.open_prefix):
            meant = closest(option, options, likeness=0.87)
            if meant is not None:
                yield _unknown_option(place, known, option, f"did you mean '{meant}'?")
        else:
            yield _unknown_option(place, known, option, did_you_mean(option, options))
    present = {option.lower() for option in given}
    for group in needed:
        if not any(option.lower() in present for option in group):
            listing = " or ".join(f"'{option}'" for option in group)
            yield Fault(place, f"format {known.name} needs option {listing}", "give it")


def _unknown_option(place: str, known: Format, option: str, remedy: str) -> Fault:
    return Fault(place, f"unknown option '{option}' of format {known.name}", remedy)


def _format_typo(place: str, name: str) -> Iterator[Fault]:
    if not name.strip():
        yield Fault(place, "the format is empty", f"Spark knows {', '.join(KNOWN_FORMATS)}")
        return
    meant = closest(name, KNOWN_FORMATS, likeness=0.9)
    if meant is not None:
        yield Fault(place, f"unknown format '{name}'", f"did you mean '{meant}'?")


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MOST_ARGUMENT_BYTES = 128 * 1024
"""Linux accepts at most this much as one argument, or as one variable with its name."""


def program_faults(place: str, program: Program, graph: JobGraph) -> Iterator[Fault]:
    if len(graph.vertices) > 1:
        yield Fault(place, "it is not the only vertex", "give the program a job of its own")
    names = {artifact.name for artifact in graph.artifacts}
    for what, name in (("script", program.script), ("requirements", program.requirements)):
        if name is not None and name not in names:
            yield Fault(place, f"its {what} '{name}' is not among the job's files", "add it")
    for argument in program.arguments:
        yield from _text_faults(place, "an argument", argument)
    for name, value in program.environment.items():
        if not _VARIABLE.fullmatch(name):
            yield Fault(
                place,
                f"'{name}' is not the name of an environment variable",
                "use letters, digits and '_', not beginning with a digit",
            )
        yield from _text_faults(place, f"the environment variable {name}", f"{name}={value}")


def _text_faults(place: str, what: str, text: str) -> Iterator[Fault]:
    if "\0" in text:
        yield Fault(place, f"{what} has a zero byte in it", "remove it")
    elif len(text.encode(errors="replace")) >= MOST_ARGUMENT_BYTES:
        yield Fault(
            place, f"{what} is longer than the operating system allows", "put it into a file"
        )

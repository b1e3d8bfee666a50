"""Checks the arguments of `source`, `transform` and `sink` where they are written.

A vertex is written in one of two ways: with keywords, which become a format or a query of the job
graph, or as a decorated function, whose parameters without a default name the vertices it reads.
"""

import inspect
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from stoker.core.checks.structure import RESERVED_NAMES
from stoker.core.graph import FormatRead, FormatWrite, Sql
from stoker.pipeline.drafts import FunctionDraft, UserFunction
from stoker.pipeline.texts import as_text, merged_options, optional_text, refuse

File = str | PathLike[str]

# The names that an editor completes; parameters (`${mode}`) and further formats are texts as well.
Format = (
    Literal["csv", "json", "xml", "parquet", "orc", "text", "avro", "binaryFile", "jdbc"]
    | Literal["kafka", "rate", "rate-micro-batch", "socket", "memory", "console", "noop"]
    | str
)
Mode = Literal["append", "overwrite", "ignore", "errorifexists", "update", "complete"] | str
Trigger = Literal["available-now", "once", "10 seconds", "1 minute"] | str


def given(**keywords: Any) -> dict[str, Any]:
    """The keywords that a caller gave a value."""
    return {key: value for key, value in keywords.items() if value is not None}


def read_of(
    place: str,
    *,
    format: str | None = None,
    path: File | None = None,
    schema: str | None = None,
    table: str | None = None,
    sql: str | None = None,
    options: Mapping[str, Any] | None = None,
    **more: Any,
) -> FormatRead | Sql:
    if sql is not None:
        if format or path or schema or table or options or more:
            raise refuse(place, "it has sql= and a format", "give one of them")
        return Sql(query=as_text(sql, place=place, what="sql"))
    if format is None and table is None:
        raise refuse(
            place,
            "it has no format",
            "give format=, table= or sql=; to name a function, use @pipeline.source(name=…)",
        )
    return FormatRead(
        format=as_text(format or "table", place=place, what="format"),
        path=optional_text(path, place=place, what="path"),
        schema=optional_text(schema, place=place, what="schema"),
        options=merged_options(options, more, place=place),
        table=optional_text(table, place=place, what="table"),
    )


def query_of(
    place: str, *, sql: str | None = None, inputs: Iterable[str] | None = None, **surplus: Any
) -> tuple[tuple[str, ...] | None, Sql]:
    if surplus:
        raise refuse(
            place, f"it does not take {', '.join(surplus)}", "a transform takes sql= and inputs="
        )
    if sql is None:
        raise refuse(
            place,
            "it has no query",
            "give sql=; to name a function, use @pipeline.transform(name=…)",
        )
    names = (inputs,) if isinstance(inputs, str) else inputs
    return (
        None if names is None else tuple(names),
        Sql(query=as_text(sql, place=place, what="sql")),
    )


def write_of(
    place: str,
    *,
    format: str | None = None,
    path: File | None = None,
    table: str | None = None,
    partition_by: Iterable[str] | str = (),
    options: Mapping[str, Any] | None = None,
    **more: Any,
) -> FormatWrite:
    if format is None and table is None:
        raise refuse(place, "it has no format", "give format= or table=")
    columns = (partition_by,) if isinstance(partition_by, str) else partition_by
    return FormatWrite(
        format=as_text(format or "parquet", place=place, what="format"),
        path=optional_text(path, place=place, what="path"),
        options=merged_options(options, more, place=place),
        table=optional_text(table, place=place, what="table"),
        partition_by=tuple(as_text(c, place=place, what="partition_by") for c in columns),
    )


def paths_of(files: Iterable[File], what: str) -> tuple[Path, ...]:
    if isinstance(files, str | PathLike):
        raise refuse(what, "it is one path", f"give a list: {what}=[…]")
    return tuple(Path(file) for file in files)


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def function_draft(function: UserFunction, *, place: str) -> FunctionDraft:
    """The function with its parameters that have no default; nobody fills the others."""
    if not callable(function) or isinstance(function, type):
        raise refuse(
            place,
            f"{function!r} is not a function",
            "write @pipeline.source above a def, or give format= or sql=",
        )
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise refuse(
            place,
            "the function is asynchronous or a generator",
            "write a plain function that returns a DataFrame",
        )
    names: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in _VARIADIC:
            raise refuse(
                place,
                f"'{parameter}' says nothing about what the function reads",
                "name every input as a parameter of its own",
            )
        if parameter.default is not inspect.Parameter.empty:
            continue
        if parameter.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            raise refuse(
                place,
                f"parameter '{name}' is positional-only or keyword-only",
                "remove the '/' or '*' from the signature",
            )
        names.append(name)
    return FunctionDraft(function=function, parameters=tuple(names))


def sink_function_draft(function: UserFunction, *, place: str) -> FunctionDraft:
    """Spark passes the DataFrame and, in a stream, the batch id. `params`, if any, is last."""
    draft = function_draft(function, place=place)
    if "spark" in draft.parameters:
        raise refuse(
            place, "the function of a sink is not given 'spark'", "use df.sparkSession instead"
        )
    if "params" in draft.parameters[:-1]:
        raise refuse(place, "'params' is not its last parameter", "write it last")
    return draft


def name_of(function: UserFunction, given: str | None, *, kind: str) -> str:
    name = given or getattr(function, "__name__", "")
    if not name or name == "<lambda>":
        raise refuse(kind, "a lambda has no name", "give name=, or use def")
    return name


def edges(draft: FunctionDraft) -> tuple[str, ...]:
    return tuple(name for name in draft.parameters if name not in RESERVED_NAMES)

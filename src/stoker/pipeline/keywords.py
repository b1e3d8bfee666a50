"""What the keywords of a source, a transform and a sink say, as values of the job graph."""

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from stoker.core.graph import FormatRead, FormatWrite, Sql
from stoker.pipeline.texts import as_text, merged_options, optional_text, refuse

File = str | PathLike[str]


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
            "give format=, table= or sql=; a function is named by @pipeline.source(name=…)",
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
            "give sql=; a function is named by @pipeline.transform(name=…)",
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

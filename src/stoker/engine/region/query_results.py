"""Keeps the rows of a script's queries where clients can read them, within limits."""

import asyncio
from typing import Any

import msgspec
from pyspark.sql import functions

from stoker.core.rows import Column, QueryResult, encoder, is_known_type
from stoker.engine.limits import RunnerLimits
from stoker.ha.stores.query_results import QueryResultStore
from stoker.storage.open import open_storage

DataFrame = Any

_PIECE_BYTES = 512 * 1024
"""A piece of rows is complete when it has this size: clients read piece by piece."""
_LARGEST_ROW = 4 * 1024**2
"""With the rows before it, such a row is still small enough for one answer."""


class QueryResults:
    """Results of the queries of one attempt, in the order in which they ran."""

    def __init__(self, root: str, limits: RunnerLimits | None) -> None:
        self._root = root
        self._most_rows = limits.result_rows if limits is not None else None
        self._most_bytes = limits.result_bytes if limits is not None else None
        self._room = self._most_bytes
        self._count = 0

    def keep(self, statement: str, query: DataFrame) -> None:
        """Run the query and keep its first rows. Does nothing if there is no place for them."""
        if not self._root:
            return
        query, columns = _with_known_types(query)
        self._count += 1
        asyncio.run(self._write(statement, query, columns))

    async def _write(self, statement: str, query: DataFrame, columns: tuple[Column, ...]) -> None:
        store, number = QueryResultStore(open_storage(self._root)), self._count
        encoders = [encoder(column.type) for column in columns]
        pieces: list[int] = []
        piece: list[bytes] = []
        size, truncated = 0, ""
        most = self._most_rows
        # One more than the limit, to know whether there are more.
        rows = query if most is None else query.limit(most + 1)
        for row in rows.toLocalIterator():
            values = [encode(value) for encode, value in zip(encoders, row, strict=True)]
            encoded = msgspec.json.encode(values)
            if truncated := self._reason_to_stop(sum(pieces) + len(piece), len(encoded)):
                break
            piece.append(encoded)
            size += len(encoded)
            if size >= _PIECE_BYTES:
                await store.write_rows(number, len(pieces), piece)
                pieces.append(len(piece))
                piece, size = [], 0
        if piece:
            await store.write_rows(number, len(pieces), piece)
            pieces.append(len(piece))
        result = QueryResult(
            statement=statement, columns=columns, pieces=tuple(pieces), truncated=truncated
        )
        await store.record(number, result)

    def _reason_to_stop(self, rows: int, size: int) -> str:
        """Why the next row, of this size, is not kept; empty if it is."""
        if self._most_rows is not None and rows >= self._most_rows:
            return f"only the first {self._most_rows:,} rows are kept (sql.result.max-rows)"
        if size > _LARGEST_ROW:
            return (
                f"the next row has {size:,} bytes, and at most {_LARGEST_ROW:,} are kept of a row"
            )
        if self._room is not None and self._most_bytes is not None:
            if size > self._room:
                return (
                    f"only the first {self._most_bytes:,} bytes of rows are kept"
                    " (sql.result.max-size)"
                )
            self._room -= size
        return ""


def _with_known_types(query: DataFrame) -> tuple[DataFrame, tuple[Column, ...]]:
    """The query and its columns; values that Python cannot represent are made texts."""
    fields = [(field["name"], field["type"]) for field in query.schema.jsonValue()["fields"]]
    unknown = [not is_known_type(type_) for _, type_ in fields]
    columns = tuple(
        Column(name=name, type="string" if is_unknown else type_)
        for (name, type_), is_unknown in zip(fields, unknown, strict=True)
    )
    if not any(unknown):
        return query, columns
    # Names may occur twice, so columns get others for the time of the conversion.
    names = [f"c{at}" for at in range(len(fields))]
    converted = [
        _as_text(name, type_) if is_unknown else functions.col(name)
        for name, (_, type_), is_unknown in zip(names, fields, unknown, strict=True)
    ]
    return query.toDF(*names).select(*converted), columns


def _as_text(name: str, type_: Any) -> Any:
    column = functions.col(name)
    is_simple = isinstance(type_, str) and type_ != "variant"
    return column.cast("string") if is_simple else functions.to_json(column)

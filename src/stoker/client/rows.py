"""The rows of a query at the client: as a list, and as a table of Arrow or pandas."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from stoker.api.jobs import RowsAnswer
from stoker.core.errors import InvalidInput
from stoker.core.rows import Column, Row, SparkType, decoder

if TYPE_CHECKING:
    import pandas
    import pyarrow

_MOST_IN_HTML = 100
"""Rows that a notebook shows."""


class Rows(list[Row]):
    """The rows that a query returned: a list of `Row`, which a notebook shows as a table.

    - `names`, `columns`: names of the columns, and names with types.
    - `statement`: the query.
    - `total`: number of rows that the cluster keeps.
    - `truncated`: why the query returned more rows than are kept; empty if all are kept.
    """

    def __init__(
        self,
        rows: Iterable[Row],
        columns: Sequence[Column],
        *,
        statement: str = "",
        total: int | None = None,
        truncated: str = "",
    ) -> None:
        super().__init__(rows)
        self.columns = tuple(columns)
        self.statement = statement
        self.total = len(self) if total is None else total
        self.truncated = truncated

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def to_arrow(self) -> "pyarrow.Table":
        """The rows as a table of pyarrow, which has to be installed."""
        arrow = _import("pyarrow")
        fields = [
            arrow.field(column.name, _arrow_type(arrow, column.type)) for column in self.columns
        ]
        arrays = [
            arrow.array([_for_arrow(row[at], column.type) for row in self], type=field.type)
            for at, (column, field) in enumerate(zip(self.columns, fields, strict=True))
        ]
        return arrow.Table.from_arrays(arrays, schema=arrow.schema(fields))

    def to_pandas(self) -> "pandas.DataFrame":
        """The rows as a DataFrame of pandas, which has to be installed, like pyarrow."""
        _import("pandas")
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        cells = "".join(f"<th>{escape(name)}</th>" for name in self.names)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell_text(value))}</td>" for value in row) + "</tr>"
            for row in self[:_MOST_IN_HTML]
        )
        note = f"<div><i>{escape(self.count_text(_MOST_IN_HTML))}</i></div>"
        return f"<table><thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table>{note}"

    def count_text(self, most: int) -> str:
        """How many rows there are, and how many of them are seen if that is `most`."""
        kept = count_text(self.total)
        text = kept if self.total <= most else f"the first {most:,} of {kept}"
        return f"{text}; {self.truncated}" if self.truncated else text


def rows_of(pieces: Sequence[RowsAnswer]) -> Rows:
    """All rows of a query from the answers that hold them, of which there is at least one."""
    first = pieces[0]
    names = [column.name for column in first.columns]
    decoders = [decoder(column.type) for column in first.columns]
    rows = (
        Row(names, (decode(value) for decode, value in zip(decoders, values, strict=True)))
        for piece in pieces
        for values in piece.rows
    )
    return Rows(
        rows,
        first.columns,
        statement=first.statement,
        total=first.total,
        truncated=first.truncated,
    )


def count_text(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def cell_text(value: Any) -> str:
    """A value as people read it, on one line and without characters that a terminal obeys."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case bytes():
            return f"0x{value.hex()}"
        case str():
            return "".join(each if each.isprintable() else _escaped(each) for each in value)
        case Row():
            fields = zip(value.columns, value, strict=True)
            return "{" + ", ".join(f"{key}: {cell_text(item)}" for key, item in fields) + "}"
        case list():
            return "[" + ", ".join(map(cell_text, value)) + "]"
        case dict():
            items = (f"{cell_text(key)}: {cell_text(item)}" for key, item in value.items())
            return "{" + ", ".join(items) + "}"
        case _:
            return str(value)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


# Arrow

_ARROW_TYPES = {
    "binary": "binary",
    "boolean": "bool_",
    "byte": "int8",
    "date": "date32",
    "double": "float64",
    "float": "float32",
    "integer": "int32",
    "long": "int64",
    "short": "int16",
    "void": "null",
}


def _import(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise InvalidInput(
            f"{module} is not installed, and the rows cannot be given in its form without it: "
            f"pip install {module}, or use the rows as a list"
        ) from error


def _arrow_type(arrow: Any, type_: SparkType) -> Any:
    match type_:
        case {"type": "array", "elementType": element}:
            return arrow.list_(_arrow_type(arrow, element))
        case {"type": "map", "keyType": key, "valueType": value}:
            return arrow.map_(_arrow_type(arrow, key), _arrow_type(arrow, value))
        case {"type": "struct", "fields": fields}:
            return arrow.struct(
                [arrow.field(each["name"], _arrow_type(arrow, each["type"])) for each in fields]
            )
    name = str(type_)
    if name.startswith("decimal("):
        precision, scale = name.removeprefix("decimal(").rstrip(")").split(",")
        return arrow.decimal128(int(precision), int(scale))
    if name.startswith("interval"):
        return arrow.duration("us")
    match name.partition("(")[0]:
        case "time":
            return arrow.time64("us")
        case "timestamp":
            return arrow.timestamp("us", tz="UTC")
        case "timestamp_ntz":
            return arrow.timestamp("us")
        case plain:
            return getattr(arrow, _ARROW_TYPES.get(plain, "string"))()


def _for_arrow(value: Any, type_: SparkType) -> Any:
    """The value with its maps as lists of pairs; Arrow takes structs by position, as they are."""
    if value is None:
        return None
    match type_:
        case {"type": "array", "elementType": element}:
            return [_for_arrow(item, element) for item in value]
        case {"type": "map", "keyType": key, "valueType": item}:
            pairs = value.items() if isinstance(value, dict) else value
            return [(_for_arrow(k, key), _for_arrow(v, item)) for k, v in pairs]
        case {"type": "struct", "fields": fields}:
            return tuple(
                _for_arrow(item, field["type"]) for item, field in zip(value, fields, strict=True)
            )
        case _:
            return value

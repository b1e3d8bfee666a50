"""Rows of a query, as JSON in the storage and over REST, and as Python values for users.

The type of each column is that of Spark's schemas in their JSON form: a name such as `long` or
`decimal(10,2)`, or an object for arrays, maps and structs. JSON has fewer kinds of values, so:

| type | in JSON | in Python |
|---|---|---|
| `decimal` | text | `Decimal` |
| `date`, `timestamp_ntz`, `time` | text, as in ISO 8601 | `date`, `datetime`, `time` |
| `timestamp` | text, as in ISO 8601, in UTC | `datetime` with its time zone |
| `binary` | text, Base64 | `bytes` |
| `double`, `float` | number; text for `NaN`, `Infinity`, `-Infinity` | `float` |
| interval of days or smaller units | number of microseconds | `timedelta` |
| struct | list of values | `Row` |
| map | list of pairs | `dict`; a list of pairs if a key cannot be one of a `dict` |
"""

import base64
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from stoker.core.values import Value

SparkType = Any
"""A type in the JSON form of Spark's schemas: text or an object."""
Convert = Callable[[Any], Any]


class Column(Value):
    name: str
    type: SparkType


class QueryResult(Value):
    """What a query returned, without the rows themselves."""

    statement: str
    columns: tuple[Column, ...]
    pieces: tuple[int, ...] = ()
    """Number of rows in each piece."""
    truncated: str = ""
    """Why rows are missing at the end, in words; empty if all are there."""

    @property
    def total(self) -> int:
        """Number of rows that were kept."""
        return sum(self.pieces)


class Row(tuple[Any, ...]):
    """The values of one row: `row[0]`, `row["name"]` or `row.name`."""

    columns: tuple[str, ...]

    def __new__(cls, columns: Iterable[str], values: Iterable[Any]) -> "Row":
        made = super().__new__(cls, tuple(values))
        made.columns = tuple(columns)
        return made

    def __getnewargs__(self) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        return self.columns, tuple(self)

    def __getitem__(self, key: Any) -> Any:
        """A value by its position or by the name of its column; of equal names, the first."""
        return super().__getitem__(self._position(key) if isinstance(key, str) else key)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "columns":
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(f"the row has no column {name!r}") from error

    def as_dict(self) -> dict[str, Any]:
        """The values by the names of their columns; of equal names, the last."""
        return dict(zip(self.columns, self, strict=True))

    def __repr__(self) -> str:
        fields = (f"{name}={value!r}" for name, value in zip(self.columns, self, strict=True))
        return f"Row({', '.join(fields)})"

    def _position(self, name: str) -> int:
        try:
            return self.columns.index(name)
        except ValueError:
            raise KeyError(name) from None


def is_known_type(type_: SparkType) -> bool:
    """Whether values of the type can be converted. Spark has to cast all others to strings."""
    if isinstance(type_, str):
        return type_ in _PLAIN or _converters(type_) is not None
    match type_:
        case {"type": "array", "elementType": element}:
            return is_known_type(element)
        case {"type": "map", "keyType": key, "valueType": value}:
            return is_known_type(key) and is_known_type(value)
        case {"type": "struct", "fields": fields}:
            return all(is_known_type(field["type"]) for field in fields)
        case _:
            return False


def encoder(type_: SparkType) -> Convert:
    """Converts values of the type, as Spark gives them to Python, to what JSON can hold."""
    return _nullable(_encoder(type_))


def decoder(type_: SparkType) -> Convert:
    """The reverse of `encoder`, with structs as `Row`."""
    return _nullable(_decoder(type_))


def _nullable(convert: Convert) -> Convert:
    if convert is _same:
        return convert
    return lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value


def _encoder(type_: SparkType) -> Convert:
    match type_:
        case str():
            return (_converters(type_) or (_same, _same))[0]
        case {"type": "array", "elementType": element}:
            each = encoder(element)
            return lambda value: [each(item) for item in value]
        case {"type": "map", "keyType": key_type, "valueType": value_type}:
            key, item = encoder(key_type), encoder(value_type)
            return lambda value: [[key(k), item(v)] for k, v in value.items()]
        case {"type": "struct", "fields": fields}:
            parts = [encoder(field["type"]) for field in fields]
            return lambda value: [part(item) for part, item in zip(parts, value, strict=True)]
        case _:
            return str


def _decoder(type_: SparkType) -> Convert:
    match type_:
        case str():
            return (_converters(type_) or (_same, _same))[1]
        case {"type": "array", "elementType": element}:
            each = decoder(element)
            return lambda value: [each(item) for item in value]
        case {"type": "map", "keyType": key_type, "valueType": value_type}:
            key, item = decoder(key_type), decoder(value_type)
            return lambda value: _as_map([(key(k), item(v)) for k, v in value])
        case {"type": "struct", "fields": fields}:
            names = [field["name"] for field in fields]
            parts = [decoder(field["type"]) for field in fields]
            return lambda value: Row(
                names, (part(item) for part, item in zip(parts, value, strict=True))
            )
        case _:
            return _same


def _as_map(pairs: list[tuple[Any, Any]]) -> dict[Any, Any] | list[tuple[Any, Any]]:
    try:
        return dict(pairs)
    except TypeError:
        return pairs


_PLAIN = frozenset({"boolean", "byte", "integer", "long", "short", "string", "void"})
_MICROSECOND = timedelta(microseconds=1)


def _finite(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _in_utc(value: datetime) -> str:
    # Spark gives Python the local time of this process, without a time zone.
    return value.astimezone(UTC).isoformat()


_CONVERTERS: Mapping[str, tuple[Convert, Convert]] = {
    "binary": (lambda value: base64.b64encode(value).decode(), base64.b64decode),
    "date": (date.isoformat, date.fromisoformat),
    "decimal": (str, Decimal),
    "double": (_finite, float),
    "float": (_finite, float),
    "time": (time.isoformat, time.fromisoformat),
    "timestamp": (_in_utc, datetime.fromisoformat),
    "timestamp_ntz": (datetime.isoformat, datetime.fromisoformat),
}
_OF_INTERVALS: tuple[Convert, Convert] = (
    lambda value: value // _MICROSECOND,
    lambda value: timedelta(microseconds=value),
)


def _converters(name: str) -> tuple[Convert, Convert] | None:
    """From Python to JSON, and back; None for a type whose values need no conversion."""
    if name.startswith("interval ") and not {"year", "month"} & set(name.split()):
        return _OF_INTERVALS
    if name.startswith(("char(", "varchar(", "string ")):
        return _same, _same
    return _CONVERTERS.get(name.partition("(")[0])

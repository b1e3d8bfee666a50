"""Values of options: from text to a typed value and back."""

import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from stoker.core.durations import MICROSECONDS, read_duration
from stoker.core.options import BYTES, ByteSize, read_size

Raw = str | Sequence[str] | Mapping[str, str]
"""A value as a source gives it: text, or, from a file, a list or a mapping of texts."""

NOTHING = ("", "none", "null", "~")
"""Texts that stand for None where a value is optional."""


class UnreadableValue(ValueError):
    """The text is not a value of the type."""


def is_supported(kind: Any) -> bool:
    kind, _ = _without_none(kind)
    return kind in _READERS or _is_enum(kind)


def takes_pairs(kind: Any) -> bool:
    return bool(_without_none(kind)[0] == dict[str, str])


def parse(kind: Any, raw: Raw) -> Any:
    """The value of type `kind` that `raw` stands for. Raises ValueError."""
    kind, optional = _without_none(kind)
    if optional and isinstance(raw, str) and raw.strip().lower() in NOTHING:
        return None
    if _is_enum(kind):
        return _parse_enum(kind, _text(raw))
    return _READERS[kind](raw)


def format_value(value: Any) -> str:
    """Text that `parse` reads as the same value."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case timedelta():
            return _format_duration(value)
        case ByteSize():
            return _format_size(value)
        case tuple():
            return ", ".join(value)
        case dict():
            return ", ".join(f"{key}:{text}" for key, text in value.items())
        case _:
            return str(value)


def allowed(kind: Any) -> str:
    """What may be written for a value of this type, in words."""
    kind, optional = _without_none(kind)
    words = (
        "one of " + ", ".join(member.value for member in kind) if _is_enum(kind) else _WORDS[kind]
    )
    return f"{words}, or none" if optional else words


def type_name(kind: Any) -> str:
    """The type in a word or two, for a table."""
    kind, optional = _without_none(kind)
    name = " or ".join(member.value for member in kind) if _is_enum(kind) else _TYPE_NAMES[kind]
    return f"{name}, optional" if optional else name


def _without_none(kind: Any) -> tuple[Any, bool]:
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        rest = [part for part in typing.get_args(kind) if part is not types.NoneType]
        if len(rest) == 1:
            return rest[0], True
    return kind, False


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, StrEnum)


def _text(raw: Raw) -> str:
    if not isinstance(raw, str):
        raise UnreadableValue
    return raw.strip()


def _parse_bool(raw: Raw) -> bool:
    text = _text(raw).lower()
    if text not in ("true", "false"):
        raise UnreadableValue
    return text == "true"


def _parse_int(raw: Raw) -> int:
    return int(_text(raw))


def _parse_float(raw: Raw) -> float:
    return float(_text(raw))


def _parse_path(raw: Raw) -> Path:
    text = _text(raw)
    if not text:
        raise UnreadableValue
    try:
        return Path(text).expanduser()
    except RuntimeError as error:  # ~name, and there is no user of that name
        raise UnreadableValue from error


def _parse_enum(kind: type[StrEnum], text: str) -> StrEnum:
    for member in kind:
        if text.lower().replace("_", "-") == member.value.lower().replace("_", "-"):
            return member
    raise UnreadableValue


def _parse_duration(raw: Raw) -> timedelta:
    try:
        return read_duration(_text(raw))
    except ValueError as error:
        raise UnreadableValue from error


def _format_duration(value: timedelta) -> str:
    total = value // timedelta(microseconds=1)
    if total == 0:
        return "0 s"
    unit = max(
        (unit for unit, size in MICROSECONDS.items() if total % size == 0),
        key=lambda unit: MICROSECONDS[unit],
    )
    return f"{total // MICROSECONDS[unit]} {unit}"


def _parse_size(raw: Raw) -> ByteSize:
    return read_size(_text(raw))


def _format_size(value: ByteSize) -> str:
    unit = max(
        (unit for unit, size in BYTES.items() if value and value % size == 0),
        key=lambda unit: BYTES[unit],
        default="b",
    )
    return f"{value // BYTES[unit]} {unit}"


def _parse_list(raw: Raw) -> tuple[str, ...]:
    if isinstance(raw, Mapping):
        raise UnreadableValue
    items = raw.split(",") if isinstance(raw, str) else raw
    return tuple(item.strip() for item in items if item.strip())


def _parse_mapping(raw: Raw) -> dict[str, str]:
    if isinstance(raw, Mapping):
        return dict(raw)
    pairs = [item.partition(":") for item in _parse_list(raw)]
    if any(not separator or not key.strip() for key, separator, _ in pairs):
        raise UnreadableValue
    if any(mark in key for key, _, _ in pairs for mark in "{}[]\"'"):
        # Somebody wrote YAML on the command line: its brackets would become part of the names.
        raise UnreadableValue
    return {key.strip(): text.strip() for key, _, text in pairs}


_READERS: dict[Any, Callable[[Raw], Any]] = {
    bool: _parse_bool,
    int: _parse_int,
    float: _parse_float,
    str: _text,
    Path: _parse_path,
    timedelta: _parse_duration,
    ByteSize: _parse_size,
    tuple[str, ...]: _parse_list,
    dict[str, str]: _parse_mapping,
}
_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    timedelta: "a number with a unit, such as 100 ms, 10 s, 5 min, 1 h",
    ByteSize: "a size, such as 4096, 64 kb, 512 mb, 1 gb",
    tuple[str, ...]: "a list, such as a, b, c",
    dict[str, str]: "pairs, such as name:value, other:value",
}
_TYPE_NAMES: dict[Any, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    timedelta: "duration",
    ByteSize: "size",
    tuple[str, ...]: "list",
    dict[str, str]: "pairs",
}

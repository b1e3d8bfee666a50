"""Plain Python values as strings: in a job graph, options and parameters are strings."""

from collections.abc import Mapping
from datetime import date
from pathlib import PurePath
from typing import Any

from stoker.core.errors import InvalidJobGraph
from stoker.core.faults import Fault


def refuse(place: str, problem: str, remedy: str) -> InvalidJobGraph:
    return InvalidJobGraph([str(Fault(place, problem, remedy))])


def as_text(value: Any, *, place: str, what: str) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float() | PurePath():
            return str(value)
        case date():
            return value.isoformat()
        case _:
            raise refuse(
                place,
                f"{what} is a {type(value).__name__}",
                "give a string, a number, true or false, a date or a path",
            )


def optional_text(value: Any, *, place: str, what: str) -> str | None:
    return None if value is None else as_text(value, place=place, what=what)


def as_texts(values: Mapping[str, Any], *, place: str, what: str) -> dict[str, str]:
    return {
        as_text(key, place=place, what="a key"): as_text(value, place=place, what=f"{what} '{key}'")
        for key, value in values.items()
    }


def merged_options(
    options: Mapping[str, Any] | None, more: Mapping[str, Any], *, place: str
) -> dict[str, str]:
    """Options from a mapping and from keywords. Raises InvalidJobGraph for a duplicate."""
    merged: dict[str, Any] = {}
    seen: set[str] = set()
    for source in (options or {}), more:
        for key, value in source.items():
            # Spark ignores case in the names of options.
            folded = str(key).lower()
            if folded in seen:
                raise refuse(place, f"option '{key}' is given twice", "give it once")
            seen.add(folded)
            merged[key] = value
    return as_texts(merged, place=place, what="option")

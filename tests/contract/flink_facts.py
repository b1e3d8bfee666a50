"""The table of Flink's answers, and the comparison of an answer with the table."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("flink_facts.txt")

_KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "whole": (int,),
    "number": (int, float),
    "truth": (bool,),
    "list": (list,),
    "object": (dict,),
    "map": (dict,),
    "null": (type(None),),
}


EXCEPTIONS: dict[str, str] = {}
"""Intended differences, worded as `differences` reports them, each with its reason."""


@dataclass(frozen=True)
class Field:
    place: str
    kinds: tuple[str, ...]
    mark: str
    unit: str = ""

    @property
    def is_certain(self) -> bool:
        return self.mark in "!~"


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    status: int
    fields: dict[str, Field] = field(default_factory=dict)


def read_table(text: str | None = None) -> list[Operation]:
    operations: list[Operation] = []
    for line in (text or TABLE.read_text()).splitlines():
        if line.startswith("#") or not line.strip():
            continue
        words = line.split()
        if line.startswith(" "):
            place, kinds, mark, *unit = words
            found = Field(place, tuple(kinds.split("|")), mark, *unit)
            operations[-1].fields[place] = found
        else:
            operations.append(Operation(words[0], words[1], int(words[2])))
    return operations


def differences(answer: Any, operation: Operation) -> list[str]:
    """Fields that Flink does not have, fields of another type, and fields that are missing."""
    certain = defaultdict(set)
    for place, each in operation.fields.items():
        parent, _, name = place.rpartition(".")
        if each.is_certain and name not in ("", "*") and not place.endswith("[]"):
            certain[parent].add(name)
    return list(_walk(answer, "", operation.fields, certain))


_DURATIONS = re.compile("duration|interval|pause|runtime|timeout|offset|accumulated|delay", re.I)
"""Names of durations. timeSinceLastHeartbeat is a point in time, despite its name."""
NEVER = (-1, 0)
"""Flink's values for the time of something that has not happened."""


def misplaced_moments(answer: Any, operation: Operation, around: int, within: int) -> list[str]:
    """Times more than `within` ms away from `around`, and durations longer than `within` ms."""
    found = []
    for place, value in _leaves(answer, "", operation.fields):
        known = operation.fields.get(place)
        if known is None or known.unit != "ms" or isinstance(value, bool):
            continue
        if not isinstance(value, int | float) or value in NEVER:
            continue
        is_duration = _DURATIONS.search(place.replace(".*", "").rpartition(".")[2]) is not None
        if (value if is_duration else abs(value - around)) > within:
            found.append(f"{place}: {value} is not a {'duration' if is_duration else 'time'} in ms")
    return found


def _leaves(value: Any, place: str, fields: dict[str, Field]) -> Iterator[tuple[str, Any]]:
    """Every scalar value with its place in the table."""
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item, f"{place}[]", fields)
    elif isinstance(value, dict):
        for name, item in value.items():
            inner = f"{place}.{name}" if place else name
            named = inner in fields or f"{place}.*" not in fields
            yield from _leaves(item, inner if named else f"{place}.*", fields)
    else:
        yield place, value


def unexcused(faults: list[str]) -> list[str]:
    return [each for each in faults if each.removeprefix(".") not in EXCEPTIONS]


def _walk(value: Any, place: str, fields: dict[str, Field], certain: dict[str, set[str]]) -> Any:
    known = fields.get(place)
    if known is not None and not _fits(value, known):
        yield f"{place}: {value!r:.60} is not {' or '.join(known.kinds)}"
        return
    if isinstance(value, list):
        for item in value:
            yield from _walk(item, f"{place}[]", fields, certain)
    elif isinstance(value, dict):
        yield from (f"{place}.{name}: missing" for name in sorted(certain[place] - value.keys()))
        has_free_keys = f"{place}.*" in fields or (not place and ".*" in fields)
        for name, item in value.items():
            inner = f"{place}.{name}" if place else name
            if inner in fields:
                yield from _walk(item, inner, fields, certain)
            elif has_free_keys:
                yield from _walk(item, f"{place}.*", fields, certain)
            elif known is None or known.kinds != ("any",):
                if place and not any(each.startswith(f"{place}.") for each in fields):
                    continue
                yield f"{inner}: not in Flink's answer"


def _fits(value: Any, known: Field) -> bool:
    if known.kinds == ("any",):
        return True
    if isinstance(value, bool):
        return "truth" in known.kinds
    return any(isinstance(value, _KINDS[kind]) for kind in known.kinds)

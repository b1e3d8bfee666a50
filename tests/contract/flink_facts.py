"""The table of what Flink answers, and where an answer differs from it."""

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
"""Differences that are meant: the whole place and what is different, with the reason."""


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
    """Fields that Flink has not, has in another type, or has always and the answer has not."""
    certain = defaultdict(set)
    for place, each in operation.fields.items():
        parent, _, name = place.rpartition(".")
        if each.is_certain and name not in ("", "*") and not place.endswith("[]"):
            certain[parent].add(name)
    return list(_walk(answer, "", operation.fields, certain))


_SPANS = re.compile("duration|interval|pause|runtime|timeout|offset|accumulated|delay", re.I)
"""Not timeSinceLastHeartbeat, which is a moment, whatever its name says."""
NEVER = (-1, 0)
"""What Flink says of a moment that has not been."""


def misplaced_moments(answer: Any, operation: Operation, around: int, within: int) -> list[str]:
    """Fields with the unit ms that are neither near that moment, nor a span shorter than that."""
    found = []
    for place, value in _leaves(answer, "", operation.fields):
        known = operation.fields.get(place)
        if known is None or known.unit != "ms" or isinstance(value, bool):
            continue
        if not isinstance(value, int | float) or value in NEVER:
            continue
        is_span = _SPANS.search(place.replace(".*", "").rpartition(".")[2]) is not None
        if (value if is_span else abs(value - around)) > within:
            found.append(f"{place}: {value} is no {'span' if is_span else 'moment'} in ms")
    return found


def _leaves(value: Any, place: str, fields: dict[str, Field]) -> Iterator[tuple[str, Any]]:
    """Every value with its place in the table."""
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
        free = f"{place}.*" in fields or (not place and ".*" in fields)
        for name, item in value.items():
            inner = f"{place}.{name}" if place else name
            if inner in fields:
                yield from _walk(item, inner, fields, certain)
            elif free:
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

"""How far a stream is behind its sources, from the positions in Spark's report of a batch. Pure."""

import json
from collections.abc import Iterable, Mapping
from typing import Any


def backlog_of(sources: Iterable[Any]) -> int | None:
    """Positions that are left to read in all sources together.

    None if a source does not tell its newest position, or tells it in a form of its own.
    """
    behind = [_behind(source["endOffset"], source["latestOffset"]) for source in sources]
    known = [each for each in behind if each is not None]
    return sum(known) if known and len(known) == len(behind) else None


def _behind(end: Any, newest: Any) -> int | None:
    return _difference(_decoded(end), _decoded(newest))


def _decoded(offset: Any) -> Any:
    """A position is a number, or JSON such as Kafka's `{"topic": {"0": 12}}`."""
    try:
        return json.loads(offset) if isinstance(offset, str) else offset
    except ValueError:
        return None


def _difference(end: Any, newest: Any) -> int | None:
    """Numbers by their difference, mappings by the sum over all that the newest one names."""
    if isinstance(end, bool) or isinstance(newest, bool):
        return None
    if isinstance(end, int) and isinstance(newest, int):
        return max(0, newest - end)
    if not isinstance(end, Mapping) or not isinstance(newest, Mapping) or not newest:
        return None
    total = 0
    for name, position in newest.items():
        # A partition that is new since the batch has nothing read yet.
        behind = _difference(end.get(name, 0 if isinstance(position, int) else {}), position)
        if behind is None:
            return None
        total += behind
    return total

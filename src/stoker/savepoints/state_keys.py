"""By which columns the state of a query is kept: as it was saved, and as a plan would. Pure.

Spark compares the types of such columns, and not which ones they are: state kept by one column of
numbers would be taken for state kept by another.
"""

import json
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Keys = tuple[str, ...]

_OPERATOR = re.compile(
    r"(?P<name>\w+) \[(?P<keys>[^\]]*)\],(?: session_window#[^\[]*,)? "
    r"state info \[ [^\]]*?opId = (?P<id>\d+),"
)
_COLUMN = re.compile(r"([^,#]+)#\d+L?(?:-T\d+ms)?")
SESSIONS = "sessionWindowStateStoreSaveExec"
_KIND = {
    "StateStoreSave": "stateStoreSave",
    "StreamingDeduplicate": "dedupe",
    "StreamingDeduplicateWithinWatermark": "dedupeWithinWatermark",
    "SessionWindowStateStoreSave": SESSIONS,
}
"""Operators whose state is kept by these very columns: named in a plan, and in a checkpoint."""
_SESSION_START = "sessionStartTime"
"""Spark's own, behind the columns that sessions are kept by."""
_COMPUTED = "_groupingexpression"
"""Spark's name for a key that is an expression: which one cannot be seen."""


@dataclass(frozen=True, kw_only=True)
class KeyedOperator:
    kind: str
    keys: Keys


def keys_in_schema(content: bytes) -> Keys | None:
    """Of a schema file of a state store; None when it is of a kind that is not known here."""
    reader = _Reader(content)
    try:
        match reader.text():
            case "v1":
                text = reader.text()
            case "v2":
                text = "".join(reader.text() for _ in range(reader.number()))
            case _:
                return None
        return tuple(str(field["name"]) for field in json.loads(text)["fields"])
    except (struct.error, ValueError, KeyError, TypeError):
        return None


def saved_operator(kind: str, keys: Keys) -> KeyedOperator:
    """From what a checkpoint has of it."""
    own = kind == SESSIONS and keys[-1:] == (_SESSION_START,)
    return KeyedOperator(kind=kind, keys=keys[:-1] if own else keys)


def operators_in_plan(plan: str) -> dict[int, KeyedOperator]:
    """The stateful operators of a physical plan whose keys are columns, by their numbers."""
    found: dict[int, KeyedOperator] = {}
    for match in _OPERATOR.finditer(plan):
        kind, keys = _KIND.get(match["name"]), _columns(match["keys"])
        if kind is not None and keys is not None:
            found[int(match["id"])] = KeyedOperator(kind=kind, keys=keys)
    return found


def _columns(text: str) -> Keys | None:
    """None when not all of them can be told: Spark shortens long lists."""
    parts = [part.strip() for part in text.split(",")] if text else []
    matches = [_COLUMN.fullmatch(part) for part in parts]
    return tuple(match[1] for match in matches if match) if all(matches) else None


def changed_keys(
    saved: Mapping[int, KeyedOperator], planned: Mapping[int, KeyedOperator]
) -> Iterator[tuple[KeyedOperator, KeyedOperator]]:
    """Operators that keep state by other columns than before: as it was, and as it would be."""
    for number, before in saved.items():
        now = planned.get(number)
        # An operator of another kind is refused by Spark.
        if now is not None and now.kind == before.kind and now.keys != before.keys:
            yield before, now


def words_for(keys: Keys) -> str:
    return ", ".join("an expression" if key == _COMPUTED else key for key in keys) or "nothing"


class _Reader:
    """Reads what a DataOutputStream of Java has written."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def text(self) -> str:
        (size,) = struct.unpack_from(">H", self._content, self._at)
        begin = self._at + 2
        self._at = begin + size
        if self._at > len(self._content):
            raise ValueError("cut off")
        return self._content[begin : self._at].decode()

    def number(self) -> int:
        (number,) = struct.unpack_from(">i", self._content, self._at)
        self._at += 4
        return int(number)

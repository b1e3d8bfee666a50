"""The columns and expressions by which a query keeps its state: as saved, and as planned now.

Spark compares only the types of key columns, so it would read state kept by one column of numbers
as state kept by another. Two sources tell what the state was kept by:

- The schema files of the checkpoint have the names of keys that are columns (`KeyedOperator`).
- They lack grouping expressions, the expressions and type of a join, and the columns by which rows
  reach a `transformWithState` processor. Stoker reads these from the query's plan and stores them
  beside the checkpoint, so that savepoints contain them (`StatePlan`).
"""

import json
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from stoker.core.values import Value, decode_json

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
"""Operators whose state is kept by these columns: names in a plan and in a checkpoint."""
_SESSION_START = "sessionStartTime"
"""Spark's own column, after the columns by which sessions are kept."""
_COMPUTED = "_groupingexpression"
"""Spark's name for a key that is an expression; it does not tell which."""


@dataclass(frozen=True, kw_only=True)
class KeyedOperator:
    kind: str
    keys: Keys


def keys_in_schema(content: bytes) -> Keys | None:
    """Key columns from a state store's schema file; None if its format is unknown."""
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
    """A keyed operator from the kind and columns in a checkpoint."""
    own = kind == SESSIONS and keys[-1:] == (_SESSION_START,)
    return KeyedOperator(kind=kind, keys=keys[:-1] if own else keys)


def operators_in_plan(plan: str) -> dict[int, KeyedOperator]:
    """Stateful operators of a physical plan whose keys are columns, by number."""
    found: dict[int, KeyedOperator] = {}
    for match in _OPERATOR.finditer(plan):
        kind, keys = _KIND.get(match["name"]), _columns(match["keys"])
        if kind is not None and keys is not None:
            found[int(match["id"])] = KeyedOperator(kind=kind, keys=keys)
    return found


def _columns(text: str) -> Keys | None:
    """None if the list is incomplete: Spark shortens long lists."""
    parts = [part.strip() for part in text.split(",")] if text else []
    matches = [_COLUMN.fullmatch(part) for part in parts]
    return tuple(match[1] for match in matches if match) if all(matches) else None


def changed_keys(
    saved: Mapping[int, KeyedOperator], planned: Mapping[int, KeyedOperator]
) -> Iterator[tuple[KeyedOperator, KeyedOperator]]:
    """Operators whose key columns changed, before and now."""
    for number, before in saved.items():
        now = planned.get(number)
        # Spark itself refuses an operator of another kind.
        if now is not None and now.kind == before.kind and now.keys != before.keys:
            yield before, now


def describe_keys(keys: Keys) -> str:
    return ", ".join("an expression" if key == _COMPUTED else key for key in keys) or "nothing"


class _Reader:
    """Reads the format of Java's DataOutputStream."""

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


STATE_PLAN = "stoker-state-plan.json"
"""File in the directory of a checkpoint."""

_ANALYZED = re.compile(r"== Analyzed Logical Plan ==\n(.*?)(?=\n== |\Z)", re.S)
_JOIN = re.compile(
    r"StreamingSymmetricHashJoin \[(?P<left>.*?)\], \[(?P<right>.*?)\], (?P<type>\w+), condition"
    r".*?opId = (?P<id>\d+),"
)
_AGGREGATE = "~Aggregate ["
_PROCESSOR = re.compile(r"~TransformWithState\w* .*\)#\d+, (?P<keys>\d+), \[.*")
_PROJECT = "~Project ["
_ID = re.compile(r"#\d+L?(?:-T\d+ms)?")
_LAMBDA = re.compile(r"(lambda [a-z])_\d+\b")
_WINDOW = re.compile(r"window(#\d+)(?:-T\d+ms)?")


class JoinPlan(Value):
    left: str
    right: str
    """The compared expressions, in Spark's format."""
    type: str


class StatePlan(Value):
    version: int = 1
    spark_version: str = ""
    groupings: tuple[str, ...] = ()
    """Grouping expressions, in the order of the plan."""
    joins: dict[str, JoinPlan] = {}
    """Joins of two streams, by operator number."""
    processors: tuple[str, ...] = ()
    """Columns by which `transformWithState` processors receive rows."""


def state_plan(plan: str, spark_version: str) -> StatePlan:
    """Extract the plan from Spark's extended explanation of a streaming query."""
    found = _ANALYZED.search(plan)
    analyzed = found[1] if found else ""
    return StatePlan(
        spark_version=spark_version,
        groupings=tuple(_groupings(analyzed)),
        joins={match["id"]: _join(match) for match in _JOIN.finditer(plan)},
        processors=tuple(_processors(analyzed)),
    )


def encode_plan(plan: StatePlan) -> bytes:
    return msgspec.json.encode(plan)


def decode_plan(content: bytes) -> StatePlan | None:
    """None if another release wrote it or it is cut off."""
    try:
        plan = decode_json(content, StatePlan)
    except msgspec.MsgspecError:
        return None
    return plan if plan.version == 1 else None


def changed_plan(before: StatePlan, now: StatePlan) -> Iterator[str]:
    """Describe each change; nothing across Spark versions, because their plans read differently."""
    if before.spark_version != now.spark_version:
        return
    yield from _changed("groups by", "was grouped by", before.groupings, now.groupings)
    yield from _changed(
        "passes rows to its processor by", "was kept by", before.processors, now.processors
    )
    for number in sorted(set(before.joins) & set(now.joins)):
        old, new = before.joins[number], now.joins[number]
        if (old.left, old.right) != (new.left, new.right):
            yield (
                f"joins {new.left} with {new.right}, and its saved state was joined by "
                f"{old.left} with {old.right}"
            )
        elif old.type != new.type:
            yield (
                f"has a join of type {new.type}, and its saved state is that of a join of type "
                f"{old.type}"
            )


def _changed(does: str, did: str, before: tuple[str, ...], now: tuple[str, ...]) -> Iterator[str]:
    # Spark itself refuses added or removed operators.
    if len(before) == len(now):
        for old, new in zip(before, now, strict=True):
            if old != new:
                yield f"{does} {new or 'nothing'}, and its saved state {did} {old or 'nothing'}"


def _groupings(analyzed: str) -> Iterator[str]:
    for line in analyzed.splitlines():
        at = line.find(_AGGREGATE)
        if at >= 0:
            keys = _up_to_bracket(line[at + len(_AGGREGATE) :])
            yield _without_numbers(_WINDOW.sub(lambda match: _window(match, analyzed), keys))


def _window(match: re.Match[str], analyzed: str) -> str:
    """The expression of a window, because its name does not tell its length."""
    found = re.search(rf"\[named_struct\(start, (.*?)\) AS window{match[1]}\b", analyzed)
    return f"window of {found[1]}" if found else match[0]


def _processors(analyzed: str) -> Iterator[str]:
    lines = analyzed.splitlines()
    for number, line in enumerate(lines[:-1]):
        match = _PROCESSOR.search(line)
        at = lines[number + 1].find(_PROJECT)
        if match and at >= 0:
            columns = _up_to_bracket(lines[number + 1][at + len(_PROJECT) :]).split(", ")
            yield _without_numbers(", ".join(columns[: int(match["keys"])]))


def _join(match: re.Match[str]) -> JoinPlan:
    return JoinPlan(
        left=_without_numbers(match["left"]),
        right=_without_numbers(match["right"]),
        type=match["type"],
    )


def _up_to_bracket(text: str) -> str:
    depth = 0
    for at, character in enumerate(text):
        if character == "]" and depth == 0:
            return text[:at]
        depth += (character == "[") - (character == "]")
    return text


def _without_numbers(text: str) -> str:
    """Remove the numbers of columns and lambda variables, which differ with every start."""
    return _ID.sub("", _LAMBDA.sub(r"\1", text))

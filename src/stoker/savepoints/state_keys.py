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
_SLIDING = "~Expand [[named_struct(start, "
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


@dataclass(frozen=True, kw_only=True)
class PlanChange:
    words: str
    """What has changed, in short: a sentence whose subject is the query."""
    details: str
    """The same with all expressions as Spark writes them."""


def changed_plan(before: StatePlan, now: StatePlan) -> Iterator[PlanChange]:
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
            yield _change(
                "joins {new}, and its saved state was joined by {old}",
                old=(f"{old.left} with {old.right}", f"{_keys(old.left)} with {_keys(old.right)}"),
                new=(f"{new.left} with {new.right}", f"{_keys(new.left)} with {_keys(new.right)}"),
            )
        elif old.type != new.type:
            yield _change(
                "has a join of type {new}, and its saved state is that of a join of type {old}",
                old=(old.type, old.type),
                new=(new.type, new.type),
            )


def _changed(
    does: str, did: str, before: tuple[str, ...], now: tuple[str, ...]
) -> Iterator[PlanChange]:
    # Spark itself refuses added or removed operators.
    if len(before) != len(now):
        return
    for old, new in zip(before, now, strict=True):
        if old != new:
            short_old, short_new = _differing(readable_keys(old), readable_keys(new))
            yield _change(
                f"{does} {{new}}, and its saved state {did} {{old}}",
                old=(old or "nothing", short_old),
                new=(new or "nothing", short_new),
            )


def _change(sentence: str, *, old: tuple[str, str], new: tuple[str, str]) -> PlanChange:
    """Each side is given in full and in short."""
    details = sentence.format(old=old[0], new=new[0])
    words = sentence.format(old=old[1], new=new[1])
    # What is short may be the same on both sides.
    return PlanChange(words=words if old[1] != new[1] else details, details=details)


def _differing(old: list[str], new: list[str]) -> tuple[str, str]:
    """Both lists of keys in words, without the keys that stand in both at the same place."""
    if len(old) == len(new):
        pairs = [(one, other) for one, other in zip(old, new, strict=True) if one != other]
        old, new = [one for one, _ in pairs], [other for _, other in pairs]
    return ", ".join(old) or "nothing", ", ".join(new) or "nothing"


_LONGEST_KEY = 120
_LITERAL = re.compile(r"cast\((-?\d+) as \w+\)")
_TIME = re.compile(r"precisetimestampconversion\(([^(),]+), TimestampType")
_SLIDE = re.compile(r" - (\d+)\) % (\d+)\)")
"""How far the beginning of a window is shifted, and the time from one to the next, in µs."""
_LENGTH = re.compile(r"\+ (\d+)\)")
_UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))


def readable_keys(text: str) -> list[str]:
    """Spark's list of grouping expressions, each in the form in which users write it."""
    parts = _at_commas(text)
    found: list[str] = []
    while parts:
        part = parts.pop(0)
        if part.startswith("window of ") and len(parts) > 1 and parts[0] == "end":
            found.append(_window_words(part, parts[1]))
            del parts[:2]
        else:
            found.append(_key(part))
    return found


def _window_words(start: str, end: str) -> str:
    time, slide, lengths = _TIME.search(start), _SLIDE.search(start), _LENGTH.findall(end)
    if time is None or slide is None or not lengths:
        return _key(start)
    length, step, shift = lengths[-1], slide[2], slide[1]
    spans = [length]
    if step != length or shift != "0":
        spans.append(step)
    if shift != "0":
        spans.append(shift)
    return f"window({', '.join([time[1], *map(_duration, spans)])})"


def _duration(microseconds: str) -> str:
    seconds, rest = divmod(int(microseconds), 1_000_000)
    if rest or not seconds:
        return f"{microseconds} microseconds"
    name, size = next(unit for unit in _UNITS if seconds % unit[1] == 0)
    amount = seconds // size
    return f"{amount} {name}{'s' if amount != 1 else ''}"


def _keys(text: str) -> str:
    return ", ".join(readable_keys(text))


def _key(text: str) -> str:
    simple = _LITERAL.sub(r"\1", text)
    if simple.startswith("(") and simple.endswith(")") and _is_one_pair(simple):
        simple = simple[1:-1]
    return simple if len(simple) <= _LONGEST_KEY else f"{simple[:_LONGEST_KEY]}…"


def _is_one_pair(text: str) -> bool:
    """Whether the first bracket of the text closes at its end."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return at == len(text) - 1
    return False


def _at_commas(text: str) -> list[str]:
    """The text, divided at the commas that are in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _groupings(analyzed: str) -> Iterator[str]:
    for line in analyzed.splitlines():
        at = line.find(_AGGREGATE)
        if at >= 0:
            keys = _up_to_bracket(line[at + len(_AGGREGATE) :])
            yield _without_numbers(_WINDOW.sub(lambda match: _window(match, analyzed), keys))


def _window(match: re.Match[str], analyzed: str) -> str:
    """The expression of a window, because its name does not tell its length."""
    found = re.search(rf"\[named_struct\(start, (.*?)\) AS window{match[1]}\b", analyzed)
    if found is not None:
        return f"window of {found[1]}"
    for line in analyzed.splitlines():
        # Windows that overlap: an event becomes one row for each of its windows. The first one
        # tells the length of all of them.
        _, sliding, rest = line.partition(_SLIDING)
        if sliding and f"[window{match[1]}" in rest:
            return f"window of {_up_to_bracket(rest, '()')}"
    return match[0]


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


def _up_to_bracket(text: str, pair: str = "[]") -> str:
    """The text before the bracket that closes what was opened before it."""
    depth = 0
    for at, character in enumerate(text):
        if character == pair[1] and depth == 0:
            return text[:at]
        depth += (character == pair[0]) - (character == pair[1])
    return text


def _without_numbers(text: str) -> str:
    """Remove the numbers of columns and lambda variables, which differ with every start."""
    return _ID.sub("", _LAMBDA.sub(r"\1", text))

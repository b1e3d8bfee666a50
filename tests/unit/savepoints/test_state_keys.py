"""By which columns state is kept, read from Spark's schema files and plans. CKPT-13."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.savepoints.state_keys import (
    KeyedOperator,
    changed_keys,
    keys_in_schema,
    operators_in_plan,
    saved_operator,
    words_for,
)

NAMES = st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), max_size=4)
INFO = (
    "state info [ checkpoint = <unknown>, runId = 13c3f190-1225-46e4-a339-5714933b1b94, "
    "opId = {id}, ver = 0, numPartitions = 2] stateStoreCkptIds = None, Append, -9, -9, 2"
)


def text(content: str) -> bytes:
    data = content.encode()
    return struct.pack(">H", len(data)) + data


def schema_of(*names: str) -> str:
    fields = [{"name": name, "type": "long", "nullable": True} for name in names]
    return json.dumps({"type": "struct", "fields": fields})


def schema_file(*names: str, pieces: int = 1) -> bytes:
    schema = schema_of(*names)
    size = -(-len(schema) // pieces)
    cut = [schema[at : at + size] for at in range(0, len(schema), size)]
    value = text(schema_of("value"))
    return text("v2") + struct.pack(">i", len(cut)) + b"".join(map(text, cut)) + value


@given(NAMES, st.integers(1, 4))
def test_names_of_keys_are_read_from_a_schema_file_however_it_is_cut(names: list[str], pieces: int):
    assert keys_in_schema(schema_file(*names, pieces=pieces)) == tuple(names)
    first = text("v1") + text(schema_of(*names)) + text(schema_of("value"))
    assert keys_in_schema(first) == tuple(names)


@given(st.binary(max_size=200))
def test_a_file_of_another_kind_tells_nothing_and_raises_nothing(content: bytes):
    keys_in_schema(content)
    assert keys_in_schema(text("v3") + content) is None


def test_the_time_of_a_session_is_not_one_of_the_columns_that_it_is_kept_by():
    kind = "sessionWindowStateStoreSaveExec"
    assert saved_operator(kind, ("n", "sessionStartTime")).keys == ("n",)
    assert saved_operator("dedupe", ("n", "sessionStartTime")).keys == ("n", "sessionStartTime")


def test_a_file_that_is_cut_off_tells_nothing():
    assert keys_in_schema(schema_file("word")[:30]) is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("StateStoreSave [word#1], {info}", ("stateStoreSave", ("word",))),
        ("StateStoreSave [k#1L, at#2-T10000ms], {info}", ("stateStoreSave", ("k", "at"))),
        ("StateStoreSave [], {info}", ("stateStoreSave", ())),
        ("StreamingDeduplicate [n#0L], {info}", ("dedupe", ("n",))),
        (
            "StreamingDeduplicateWithinWatermark [a b#0], {info}",
            ("dedupeWithinWatermark", ("a b",)),
        ),
        (
            "SessionWindowStateStoreSave [n#2L], session_window#4: struct<start: timestamp, "
            "end: timestamp>, {info}",
            ("sessionWindowStateStoreSaveExec", ("n",)),
        ),
        ("StateStoreSave [a#1, ... 30 more fields], {info}", None),
        ("StateStoreRestore [word#1], {info}", None),
        ("StreamingSymmetricHashJoin [n#0L], [m#35L], Inner, {info}", None),
        ("HashAggregate(keys=[k#1L], functions=[merge_count(1)])", None),
    ],
)
def test_keys_are_read_from_the_line_of_an_operator(
    line: str, expected: tuple[str, tuple[str, ...]] | None
):
    plan = "*(5) Project [1]\n   +- " + line.format(info=INFO.format(id=3)) + "\n      +- Scan"
    found = {} if expected is None else {3: KeyedOperator(kind=expected[0], keys=expected[1])}
    assert operators_in_plan(plan) == found


def test_operators_of_one_plan_are_told_apart_by_their_numbers():
    lines = [
        f"+- StateStoreSave [k#1L], {INFO.format(id=0)}",
        f"   +- StateStoreRestore [k#1L], {INFO.format(id=0)}",
        f"      +- StreamingDeduplicate [n#0L], {INFO.format(id=1)}",
    ]
    assert operators_in_plan("\n".join(lines)) == {0: grouped("k"), 1: distinct("n")}


def grouped(*keys: str) -> KeyedOperator:
    return KeyedOperator(kind="stateStoreSave", keys=keys)


def distinct(*keys: str) -> KeyedOperator:
    return KeyedOperator(kind="dedupe", keys=keys)


def test_only_the_same_operator_by_other_columns_is_a_change():
    saved = {0: grouped("k"), 1: distinct("n")}
    assert list(changed_keys(saved, saved)) == []
    assert list(changed_keys(saved, {})) == []
    assert list(changed_keys(saved, {0: distinct("n")})) == []
    assert list(changed_keys(saved, {0: grouped("n"), 1: distinct("n")})) == [
        (grouped("k"), grouped("n"))
    ]
    (change,) = changed_keys({0: grouped("k")}, {0: grouped("k", "_groupingexpression")})
    assert words_for(change[1].keys) == "k, an expression"
    assert words_for(()) == "nothing"

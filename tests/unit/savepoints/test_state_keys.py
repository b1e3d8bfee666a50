"""The key columns of state, read from Spark's schema files and plans (CKPT-13)."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.savepoints.state_keys import (
    JoinPlan,
    KeyedOperator,
    StatePlan,
    changed_keys,
    changed_plan,
    decode_plan,
    describe_keys,
    encode_plan,
    keys_in_schema,
    operators_in_plan,
    readable_keys,
    saved_operator,
    state_plan,
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
def test_a_schema_file_of_unknown_format_gives_no_keys(content: bytes):
    keys_in_schema(content)
    assert keys_in_schema(text("v3") + content) is None


def test_the_start_time_of_a_session_is_not_a_key_column():
    kind = "sessionWindowStateStoreSaveExec"
    assert saved_operator(kind, ("n", "sessionStartTime")).keys == ("n",)
    assert saved_operator("dedupe", ("n", "sessionStartTime")).keys == ("n", "sessionStartTime")


def test_a_truncated_schema_file_gives_no_keys():
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


def test_operators_of_one_plan_are_distinguished_by_their_numbers():
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


def test_only_other_columns_of_the_same_operator_are_a_change():
    saved = {0: grouped("k"), 1: distinct("n")}
    assert list(changed_keys(saved, saved)) == []
    assert list(changed_keys(saved, {})) == []
    assert list(changed_keys(saved, {0: distinct("n")})) == []
    assert list(changed_keys(saved, {0: grouped("n"), 1: distinct("n")})) == [
        (grouped("k"), grouped("n"))
    ]
    (change,) = changed_keys({0: grouped("k")}, {0: grouped("k", "_groupingexpression")})
    assert describe_keys(change[1].keys) == "k, an expression"
    assert describe_keys(()) == "nothing"


def explained(analyzed: str, physical: str = "Scan") -> str:
    return (
        "== Parsed Logical Plan ==\n'Aggregate ['parsed], ['parsed]\n\n"
        f"== Analyzed Logical Plan ==\nkey: bigint, rows: bigint\n{analyzed}\n\n"
        "== Optimized Logical Plan ==\n~Aggregate [_groupingexpression#3L], [count(1)]\n\n"
        f"== Physical Plan ==\n{physical}\n"
    )


def plan_grouped_by(expression: str, number: int = 7) -> StatePlan:
    line = f"~Aggregate [{expression}], [{expression} AS g#{number + 1}L, count(1) AS count#9L]"
    return state_plan(explained(f"{line}\n+- ~Project [n#{number}L]"), "4")


def windowed(seconds: int, number: int = 15) -> StatePlan:
    window = f"window#{number}-T10000ms"
    struct = f"named_struct(start, (at#8 % {seconds}), end, ((at#8 % {seconds}) + {seconds}))"
    lines = f"~Aggregate [{window}, n#7L], [{window}]\n+- ~Project [{struct} AS {window}, n#7L]"
    return state_plan(explained(lines), "4")


def joined(left: str, right: str, kind: str) -> StatePlan:
    line = f"StreamingSymmetricHashJoin [{left}], [{right}], {kind}, condition = [ a = b[0] ], "
    return state_plan(explained("~Join Inner", line + INFO.format(id=2)), "4")


def processed(column: str, number: int = 2) -> StatePlan:
    lines = (
        f"~TransformWithStateInPySpark transformWithStateUDF(n#0L, k#{number}L)#4, 1, [key#5L], "
        f"Append, NoTime, python_row, false, 0\n:- ~Project [{column}#{number}L, n#0L]\n"
        "+- LocalRelation <empty>"
    )
    return state_plan(explained(lines), "4")


def test_the_numbers_that_spark_gives_to_columns_do_not_matter():
    assert plan_grouped_by("(n#7L % 3)") == plan_grouped_by("(n#70L % 3)", 70)
    lambdas = [
        f"filter(a#7, lambdafunction((lambda x_{n}#9 > 1), lambda x_{n}#9, false))" for n in (0, 12)
    ]
    assert plan_grouped_by(lambdas[0]) == plan_grouped_by(lambdas[1])
    assert windowed(10) == windowed(10, 40)
    assert joined("n#1L", "m#2L", "Inner") == joined("n#3L", "m#4L", "Inner")
    assert processed("k") == processed("k", 30)


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (
            plan_grouped_by("(n#7L % 3)"),
            plan_grouped_by("(n#7L % 5)"),
            "groups by n % 5, and its saved state was grouped by n % 3",
        ),
        (
            joined("n#1L", "m#2L", "Inner"),
            joined("k#1L", "m#2L", "Inner"),
            "joins k with m, and its saved state was joined by n with m",
        ),
        (
            joined("n#1L", "m#2L", "Inner"),
            joined("n#1L", "m#2L", "LeftOuter"),
            "has a join of type LeftOuter, and its saved state is that of a join of type Inner",
        ),
        (
            processed("k"),
            processed("n"),
            "passes rows to its processor by n, and its saved state was kept by k",
        ),
    ],
)
def test_each_change_of_the_plan_is_described(before: StatePlan, now: StatePlan, words: str):
    assert [change.words for change in changed_plan(before, now)] == [words]
    assert list(changed_plan(before, before)) == []


def test_a_window_of_another_length_is_another_grouping():
    (change,) = changed_plan(windowed(10), windowed(20))
    assert "% 20" in change.words
    assert list(changed_plan(windowed(10), windowed(10, 99))) == []


def sliding(seconds: int, step: int, number: int = 7) -> StatePlan:
    """The plan of windows that overlap."""
    window, time = f"window#{number}-T10000ms", f"(({TIME} - 0) % {step}000000)"
    starts = [f"({time} - {at})" for at in range(0, seconds, step)]
    rows = ", ".join(
        f"[named_struct(start, f({start}), end, f(({start} + {seconds}000000))), k#2L]"
        for start in starts
    )
    lines = f"~Aggregate [{window}, k#2L], [{window}]\n+- ~Expand [{rows}], [{window}, k#2L]"
    return state_plan(explained(lines), "4")


def test_windows_that_overlap_differ_by_their_lengths_and_steps():
    assert sliding(20, 10) == sliding(20, 10, 40)
    (change,) = changed_plan(sliding(20, 10), sliding(30, 10))
    assert change.words == (
        "groups by window(at, 30 seconds, 10 seconds), and its saved state was grouped by "
        "window(at, 20 seconds, 10 seconds)"
    )


TIME = "precisetimestampconversion(at, TimestampType, LongType)"


def window_key(length: int, slide: int, shift: int = 0) -> str:
    """The grouping by a window as Spark writes it; times are in seconds."""
    length, slide, shift = (each * 1_000_000 for each in (length, slide, shift))
    rest = f"(({TIME} - {shift}) % {slide})"
    case = f"CASE WHEN ({rest} < cast(0 as bigint)) THEN ({rest} + {slide}) ELSE {rest} END"
    start = f"(({TIME} - {case}) - 0)"
    return (
        f"window of knownnullable(precisetimestampconversion({start}, LongType, TimestampType)), "
        f"end, knownnullable(precisetimestampconversion(({start} + {length}), LongType, "
        "TimestampType))"
    )


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (window_key(10, 10), ["window(at, 10 seconds)"]),
        (window_key(3600, 600), ["window(at, 1 hour, 10 minutes)"]),
        (window_key(60, 60, 5), ["window(at, 1 minute, 1 minute, 5 seconds)"]),
        (
            f"k, {window_key(10, 10)}, (n % cast(3 as bigint))",
            ["k", "window(at, 10 seconds)", "n % 3"],
        ),
        (
            "(a + 1) * (b + 1), upper(cast(k as string))",
            ["(a + 1) * (b + 1)", "upper(cast(k as string))"],
        ),
        ("window of another(form), end, here", ["window of another(form)"]),
        ("", []),
    ],
)
def test_keys_are_shown_as_users_write_them(text: str, keys: list[str]):
    assert readable_keys(text) == keys


def test_only_the_keys_that_changed_are_told_in_short_and_all_of_them_in_full():
    before, now = f"{window_key(10, 10)}, (n % 3)", f"{window_key(10, 10)}, (n % 7)"
    (change,) = changed_plan(StatePlan(groupings=(before,)), StatePlan(groupings=(now,)))
    assert change.words == "groups by n % 7, and its saved state was grouped by n % 3"
    assert before in change.details
    assert now in change.details
    (added,) = changed_plan(StatePlan(groupings=("k",)), StatePlan(groupings=("k, n",)))
    assert added.words == "groups by k, n, and its saved state was grouped by k"


def test_keys_that_differ_only_in_what_is_left_out_are_told_in_full():
    before, now = f"f({'a' * 200}, b)", f"f({'a' * 200}, c)"
    (change,) = changed_plan(StatePlan(groupings=(before,)), StatePlan(groupings=(now,)))
    assert now in change.words


@given(st.text(alphabet="abn()[], %+'_0123456789"))
def test_any_text_of_spark_can_be_shown(text: str):
    assert all(readable_keys(text))


def test_plans_of_different_spark_versions_are_not_compared():
    old = plan_grouped_by("(n#7L % 3)")
    other_spark = StatePlan(spark_version="5", groupings=("something else",))
    assert list(changed_plan(old, other_spark)) == []
    # Spark itself compares the number of operators.
    assert list(changed_plan(old, StatePlan(spark_version="4"))) == []
    assert state_plan("no plan at all", "4") == StatePlan(spark_version="4")


def test_a_static_aggregate_has_no_state():
    assert state_plan(explained("Aggregate [k#1L], [k#1L]"), "4").groupings == ()


@given(st.text(max_size=300))
def test_any_text_can_be_parsed_as_a_plan(text: str):
    state_plan(text, "4")
    state_plan(explained(f"~Aggregate [{text}"), "4")


def test_a_stored_plan_is_read_back_and_a_truncated_one_ignored():
    plan = StatePlan(
        spark_version="4",
        groupings=("n",),
        joins={"0": JoinPlan(left="n", right="m", type="Inner")},
        processors=("k",),
    )
    content = encode_plan(plan)
    assert decode_plan(content) == plan
    assert decode_plan(content[:-3]) is None
    assert decode_plan(b'{"version":9}') is None

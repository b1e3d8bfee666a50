"""What the state of a query is kept for, read from plans as Spark writes them. CKPT-13."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.savepoints.state_plans import (
    JoinPlan,
    StatePlan,
    changed_plan,
    decode_plan,
    encode_plan,
    state_plan,
)

INFO = (
    "state info [ checkpoint = <unknown>, runId = 13c3f190-1225-46e4-a339-5714933b1b94, "
    "opId = {id}, ver = 0, numPartitions = 2] stateStoreCkptIds = None, Append, -9, -9, 2"
)


def explained(analyzed: str, physical: str = "Scan") -> str:
    return (
        "== Parsed Logical Plan ==\n'Aggregate ['parsed], ['parsed]\n\n"
        f"== Analyzed Logical Plan ==\nkey: bigint, rows: bigint\n{analyzed}\n\n"
        "== Optimized Logical Plan ==\n~Aggregate [_groupingexpression#3L], [count(1)]\n\n"
        f"== Physical Plan ==\n{physical}\n"
    )


def grouped(expression: str, number: int = 7) -> StatePlan:
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
    assert grouped("(n#7L % 3)") == grouped("(n#70L % 3)", 70)
    lambdas = [
        f"filter(a#7, lambdafunction((lambda x_{n}#9 > 1), lambda x_{n}#9, false))" for n in (0, 12)
    ]
    assert grouped(lambdas[0]) == grouped(lambdas[1])
    assert windowed(10) == windowed(10, 40)
    assert joined("n#1L", "m#2L", "Inner") == joined("n#3L", "m#4L", "Inner")
    assert processed("k") == processed("k", 30)


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (
            grouped("(n#7L % 3)"),
            grouped("(n#7L % 5)"),
            "groups by (n % 5), and what was saved was grouped by (n % 3)",
        ),
        (
            joined("n#1L", "m#2L", "Inner"),
            joined("k#1L", "m#2L", "Inner"),
            "joins k with m, and what was saved was joined by n with m",
        ),
        (
            joined("n#1L", "m#2L", "Inner"),
            joined("n#1L", "m#2L", "LeftOuter"),
            "has a join of type LeftOuter, and what was saved is of one of type Inner",
        ),
        (
            processed("k"),
            processed("n"),
            "hands rows to its processor by n, and what was saved was kept by k",
        ),
    ],
)
def test_what_the_state_was_not_kept_for_is_told(before: StatePlan, now: StatePlan, words: str):
    assert list(changed_plan(before, now)) == [words]
    assert list(changed_plan(before, before)) == []


def test_a_window_of_another_length_is_another_grouping():
    (words,) = changed_plan(windowed(10), windowed(20))
    assert "% 20" in words
    assert list(changed_plan(windowed(10), windowed(10, 99))) == []


def test_nothing_is_said_where_it_cannot_be_known():
    old = grouped("(n#7L % 3)")
    other_spark = StatePlan(spark_version="5", groupings=("something else",))
    assert list(changed_plan(old, other_spark)) == []
    # Spark compares how many operators there are.
    assert list(changed_plan(old, StatePlan(spark_version="4"))) == []
    assert state_plan("no plan at all", "4") == StatePlan(spark_version="4")


def test_a_static_aggregate_has_no_state():
    assert state_plan(explained("Aggregate [k#1L], [k#1L]"), "4").groupings == ()


@given(st.text(max_size=300))
def test_no_text_breaks_the_reading(text: str):
    state_plan(text, "4")
    state_plan(explained(f"~Aggregate [{text}"), "4")


def test_a_plan_is_read_again_and_what_is_cut_off_tells_nothing():
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

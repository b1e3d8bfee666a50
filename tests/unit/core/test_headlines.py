"""The first sentence that a user reads about a failure."""

import pytest

from stoker.core.headlines import SqlPosition, headline_of, sql_context, sql_position
from stoker.core.results import Failure

ANALYSIS = """\
[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `agee` cannot be resolved. \
Did you mean one of the following? [`age`, `name`]. SQLSTATE: 42703;
'Project ['agee]
+- LocalRelation [age#1, name#2]
"""
WORKER = """\
[FAILED_EXECUTE_UDF] An exception was thrown from the Python worker. Please see the stack trace.
Traceback (most recent call last):
  File "/home/me/job.py", line 7, in inner
    raise ValueError("bad")
ValueError: bad

JVM stacktrace:
org.apache.spark.SparkException
"""


@pytest.mark.parametrize(
    ("error", "message", "headline"),
    [
        ("ValueError", "bad", "ValueError: bad"),
        ("NoMessage", "", "NoMessage:"),
        (
            "AnalysisException",
            ANALYSIS,
            "AnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `agee` "
            "cannot be resolved. Did you mean one of the following? [`age`, `name`].",
        ),
        ("PythonException", WORKER, "ValueError: bad"),
        (
            "SyntaxError",
            "line 3\n    for = 2\n        ^",
            "SyntaxError: line 3\n    for = 2\n        ^",
        ),
    ],
)
def test_plans_frames_and_sql_states_are_left_out(error: str, message: str, headline: str) -> None:
    assert headline_of(Failure(error=error, message=message)) == headline


def test_of_several_tracebacks_the_last_tells_the_cause() -> None:
    message = WORKER.replace("ValueError: bad", "KeyError: 'x'") + WORKER
    assert headline_of(Failure(error="PythonException", message=message)) == "ValueError: bad"


def test_a_traceback_without_its_last_line_falls_back_to_the_first_lines() -> None:
    cut = "boom\nTraceback (most recent call last):\n  File"
    assert headline_of(Failure(error="E", message=cut)).startswith("E: boom")


def test_a_message_of_pages_is_cut_to_its_first_lines() -> None:
    pages = "\n".join(f"line {number}" for number in range(100))
    assert len(headline_of(Failure(error="E", message=pages)).splitlines()) == 8


PARSE = """
[PARSE_SYNTAX_ERROR] Syntax error at or near 'm'. SQLSTATE: 42601 (line 2, pos 9)

== SQL ==
select a,
   b fro m table
---------^^^
 where x
"""
DIVISION = """\
[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012
== SQL (line 2, position 2) ==
 1/0 as a
 ^^^
"""


def test_a_syntax_error_shows_the_line_and_a_mark_below_the_word() -> None:
    failure = Failure(error="ParseException", message=PARSE)
    assert headline_of(failure) == (
        "ParseException: [PARSE_SYNTAX_ERROR] Syntax error at or near 'm'.\n"
        "at line 2, column 10:\n"
        "       b fro m table\n"
        "             ^^^"
    )
    placed = Failure(error="E", message=PARSE, place="job.sql line 5 column 10")
    assert "at line" not in headline_of(placed)
    assert headline_of(placed).endswith("m table\n             ^^^")


@pytest.mark.parametrize(
    ("message", "position"),
    [
        (PARSE, SqlPosition(line=2, column=10)),
        (DIVISION, SqlPosition(line=2, column=2)),
        ("[X] no. SQLSTATE: 42703; line 1 pos 0;\n'Project", SqlPosition(line=1, column=1)),
        ("line 3 of the file", None),
    ],
)
def test_positions_are_read_in_each_form_of_spark(
    message: str, position: SqlPosition | None
) -> None:
    assert sql_position(message) == position


def test_a_position_without_the_query_gets_the_context_that_spark_leaves_out() -> None:
    query = "select a,\n  nope from t"
    context = sql_context(query, SqlPosition(line=2, column=3))
    assert context == "== SQL (line 2, position 3) ==\n  nope from t\n  ^^^^"
    shown = headline_of(Failure(error="E", message=f"boom\n'Project\n{context}"))
    assert shown == "E: boom\nat line 2, column 3:\n      nope from t\n      ^^^^"


def test_of_a_very_long_line_the_part_before_the_mark_is_shown() -> None:
    query = f"select {'a, ' * 100}nope from t"
    context = sql_context(query, SqlPosition(line=1, column=308))
    *_, line, mark = headline_of(Failure(error="E", message=f"boom\n{context}")).splitlines()
    assert len(line) <= 104
    assert line[mark.index("^") :].startswith("nope")


def test_the_cause_of_the_failure_of_a_stream_comes_first() -> None:
    message = (
        "[STREAM_FAILED] Query [id = 1-2, runId = 3-4] terminated with exception: [X] boom\n"
        "=== Streaming Query ===\nIdentifier: out"
    )
    shown = headline_of(Failure(error="StreamingQueryException", message=message))
    assert shown == "StreamingQueryException: [X] boom"

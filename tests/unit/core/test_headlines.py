"""The first sentence that a user reads about a failure."""

import pytest

from stoker.core.headlines import headline_of
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

"""What the author of a job learns about a failure."""

import pytest
from pyspark.errors import AnalysisException, PySparkException, PySparkTypeError

from stoker.core.headlines import headline_of
from stoker.engine.connect.server import explain_exit
from stoker.engine.failures import (
    CannotRun,
    failure_of,
    is_loss_of_server,
    is_user_code,
    user_frames_in_worker_traceback,
)
from stoker.engine.server_config import NOWHERE

WORKER_MESSAGE = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/x/site-packages/pyspark/worker.py", line 10, in main
    process()
  File "/home/me/job.py", line 3, in outer
    return inner(value)
  File "/home/me/job.py", line 7, in inner
    raise ValueError("bad")
ValueError: bad
"""


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def test_the_line_of_the_author_comes_first() -> None:
    failure = failure_of(raised(LookupError("gone")))
    lines = failure.stack_trace.splitlines()
    assert "test_failures.py" in lines[1]
    assert lines[-1] == "LookupError: gone"
    assert (failure.error, failure.message, failure.retriable) == ("LookupError", "gone", True)


def test_user_frames_of_a_worker_traceback_are_listed_innermost_first() -> None:
    assert user_frames_in_worker_traceback(WORKER_MESSAGE) == [
        '  File "/home/me/job.py", line 7, in inner\n    raise ValueError("bad")',
        '  File "/home/me/job.py", line 3, in outer\n    return inner(value)',
    ]


def test_a_path_that_spark_resolved_by_itself_is_explained() -> None:
    """Nothing can be read or written there, and the reason would be hard to guess."""
    for said, path in (
        (f"Path does not exist: file:{NOWHERE}/in.csv", "in.csv"),
        (
            f"Mkdirs failed to create file:{NOWHERE}/a/out/_temporary/0 (cwd=file:{NOWHERE})",
            "a/out",
        ),
    ):
        failure = failure_of(AnalysisException(said))
        assert (failure.error, failure.retriable) == ("RelativePath", False)
        headline = headline_of(failure)
        assert headline.startswith(f"RelativePath: Spark was given the relative path {path}, and")
        assert headline.endswith("name an absolute path or a URL")
        assert said in failure.message
    assert failure_of(OSError(f"{NOWHERE}/kernel/x cannot be read")).error == "OSError"


def test_the_message_omits_the_jvm_stack_trace() -> None:
    frames = "\n".join(f"\tat org.apache.spark.X.y(X.scala:{line})" for line in range(50))
    text = f"no such column\n\nJVM stacktrace:\n{frames}"
    assert failure_of(AnalysisException(text)).message == "no such column"
    assert failure_of(RuntimeError(f"job aborted\n{frames}")).message.count("\tat ") == 5


@pytest.mark.parametrize(
    ("error", "retriable"),
    [
        (AnalysisException("x"), False),
        (PySparkTypeError("x"), False),
        (ModuleNotFoundError("x"), False),
        (CannotRun("NotADataFrame", "x"), False),
        (ConnectionError("x"), True),
        (OSError("x"), True),
        (ValueError("x"), True),
    ],
)
def test_only_errors_that_can_never_succeed_are_not_retriable(
    error: BaseException, retriable: bool
) -> None:
    assert failure_of(raised(error)).retriable is retriable


def test_a_lost_server_is_recognized_behind_the_errors_that_it_caused() -> None:
    error = RuntimeError("outer")
    error.__cause__ = OSError("<_MultiThreadedRendezvous: StatusCode.UNAVAILABLE>")
    assert is_loss_of_server(error)
    assert not is_loss_of_server(ValueError("bad"))


def test_a_server_whose_spark_has_stopped_counts_as_lost() -> None:
    for words in (
        "Cannot call methods on a stopped SparkContext.\nThis stopped SparkContext was created at:",
        "Job 3 cancelled because SparkContext was shut down",
        "Lost task 0.0 in stage 0.0 (TID 0): java.lang.OutOfMemoryError: Java heap space",
    ):
        assert is_loss_of_server(PySparkException(words))
        assert not is_loss_of_server(RuntimeError(words)), "the message is not from Spark"


def test_frames_of_stoker_and_python_are_not_user_code() -> None:
    assert is_user_code("/home/me/job.py")
    assert not is_user_code("<frozen runpy>")
    assert not is_user_code("/x/site-packages/pyspark/sql/session.py")
    assert not is_user_code(explain_exit.__code__.co_filename)


@pytest.mark.parametrize(
    ("message", "retriable"),
    [
        ("[STREAM_FAILED] Query x: [UNRESOLVED_COLUMN.WITH_SUGGESTION] no column tre", False),
        ("An exception was thrown\nModuleNotFoundError: No module named 'treelib'", False),
        ("[UNSUPPORTED_OPERATION] pivot of a stream", False),
        ("[STREAM_FAILED] Query x: ValueError: cannot take 3", True),
        ("Job aborted: executor lost", True),
    ],
)
def test_a_permanent_cause_is_recognized_inside_a_query_or_worker_error(
    message: str, retriable: bool
) -> None:
    """Such a failure is not retried, whichever error of Spark wraps it (FAIL-08)."""
    assert failure_of(PySparkException(message)).retriable is retriable

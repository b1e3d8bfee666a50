"""How the end of a program is reported."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.results import Failure
from stoker.core.states import ExecutionState
from stoker.engine.classic.exits import end_of
from stoker.engine.protocol import Ended

RAISED = Ended(state=ExecutionState.FAILED, failure=Failure(error="ValueError", message="boo"))


def test_exit_code_zero_is_success_unless_something_was_raised() -> None:
    assert end_of(0, None, "", cancelled=False).state is ExecutionState.FINISHED
    assert end_of(0, RAISED, "", cancelled=False).state is ExecutionState.FAILED


@pytest.mark.parametrize(
    ("code", "error", "shown"),
    [
        (3, "ProgramFailed", "3"),
        (-11, "ProgramCrashed", "139"),
        (-6, "ProgramCrashed", "134"),
        (-9, "OutOfMemory", "137"),
    ],
)
def test_a_program_that_ends_without_a_message_is_described_by_its_exit_code(
    code: int, error: str, shown: str
) -> None:
    failure = end_of(code, None, "last\nwords\n", cancelled=False).failure
    assert failure is not None
    assert failure.error == error
    assert failure.labels["exit-code"] == shown


def test_what_the_program_raised_is_its_failure() -> None:
    failure = end_of(1, RAISED, "Traceback …", cancelled=False).failure
    assert failure is not None
    assert (failure.error, failure.message, failure.labels["exit-code"]) == (
        "ValueError",
        "boo",
        "1",
    )


def test_java_out_of_memory_is_named_whatever_python_raised() -> None:
    words = "Terminating due to java.lang.OutOfMemoryError: Java heap space\n"
    for code, ended in ((1, RAISED), (1, None)):
        for written in ((words, ""), ("Connection refused", f"row\n{words}")):
            failure = end_of(code, ended, *written, cancelled=False).failure
            assert failure is not None
            assert failure.error == "OutOfMemory"
            assert "Java heap space" in failure.message


def test_an_absent_spark_master_is_named_whatever_spark_raised() -> None:
    words = "ERROR Application has been killed. Reason: All masters are unresponsive! Giving up.\n"
    failure = end_of(1, RAISED, words, cancelled=False).failure
    assert failure is not None
    assert failure.error == "SparkMasterAbsent"
    assert "correct the master" in failure.message
    assert failure.stack_trace == RAISED.failure.stack_trace


def test_memory_messages_printed_by_the_program_are_not_those_of_its_jvm() -> None:
    printed = "caught java.lang.OutOfMemoryError and went on\n"
    failure = end_of(1, RAISED, "", printed, cancelled=False).failure
    assert failure is not None
    assert failure.error != "OutOfMemory"


@given(st.integers(-64, 255), st.text())
def test_a_cancelled_program_is_cancelled_however_it_ended(code: int, words: str) -> None:
    end = end_of(code, RAISED, words, cancelled=True)
    assert (end.state, end.failure) == (ExecutionState.CANCELED, None)


@given(st.integers(-64, 255), st.text(max_size=200))
def test_only_code_zero_is_success(code: int, words: str) -> None:
    end = end_of(code, None, words, cancelled=False)
    assert (end.state is ExecutionState.FINISHED) == (code == 0)
    assert (end.failure is None) == (code == 0)

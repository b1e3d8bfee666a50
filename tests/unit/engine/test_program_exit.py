"""Programs that end their own process, on the shared engine."""

import signal

from stoker.engine.program_exit import failure_of_death
from stoker.osproc.exit import ProcessExit


def test_a_program_that_exits_fails_with_its_exit_code() -> None:
    failure = failure_of_death(ProcessExit(code=139))
    assert (failure.error, failure.labels) == ("ProgramFailed", {"exit-code": "139"})
    assert failure.message == "the program ended with exit code 139"


def test_a_program_that_was_killed_has_crashed() -> None:
    failure = failure_of_death(ProcessExit(code=-signal.SIGSEGV))
    assert (failure.error, failure.labels) == ("ProgramCrashed", {"exit-code": "139"})
    assert "SIGSEGV" in failure.message


def test_a_program_that_ends_its_process_with_code_0_has_not_succeeded() -> None:
    failure = failure_of_death(ProcessExit(code=0))
    assert (failure.error, failure.labels) == ("ProgramFailed", {"exit-code": "1"})
    assert "sys.exit()" in failure.message

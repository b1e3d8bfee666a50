"""Programs that end their own process, on the engine that they share."""

import signal

import pytest

from stoker.engine.connect.server import exit_code_in, exit_in_words
from stoker.engine.region.program import failure_of_death


@pytest.mark.parametrize("code", [0, 3, 139, 255])
def test_the_code_of_an_exit_is_found_again_in_its_words(code: int) -> None:
    assert exit_code_in(exit_in_words(code)) == code


def test_a_signal_counts_as_a_shell_counts_it() -> None:
    assert exit_code_in(exit_in_words(-signal.SIGSEGV)) == 139
    assert exit_code_in("killed because the process it was forked from ended (exit code 1)") is None


def test_what_a_program_did_to_its_own_process_is_its_own_end() -> None:
    failure = failure_of_death("exit code 139", 139)
    assert (failure.error, failure.labels) == ("ProgramFailed", {"exit-code": "139"})
    assert failure.message == "the program ended with exit code 139"


def test_a_program_that_was_killed_has_crashed() -> None:
    failure = failure_of_death("killed by SIGSEGV", 139)
    assert (failure.error, failure.labels) == ("ProgramCrashed", {"exit-code": "139"})
    assert "SIGSEGV" in failure.message


def test_one_that_ends_its_process_in_the_middle_has_not_succeeded() -> None:
    failure = failure_of_death("exit code 0", 0)
    assert (failure.error, failure.labels) == ("ProgramFailed", {"exit-code": "1"})
    assert "sys.exit()" in failure.message

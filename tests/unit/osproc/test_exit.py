"""How a process ended."""

import signal

import pytest

from stoker.osproc.exit import ProcessExit


@pytest.mark.parametrize("code", [0, 3, 139, 255])
def test_a_shell_shows_the_code_of_an_exit(code: int) -> None:
    ended = ProcessExit(code=code)
    assert (ended.shell_code, ended.signal) == (code, None)
    assert ended.describe() == f"exit code {code}"


def test_a_shell_adds_128_to_a_signal() -> None:
    ended = ProcessExit(code=-signal.SIGSEGV)
    assert (ended.shell_code, ended.signal) == (139, signal.SIGSEGV)


def test_the_signal_is_named_if_it_has_a_name() -> None:
    assert ProcessExit(code=-9).describe() == "killed by SIGKILL"
    assert ProcessExit(code=-200).describe() == "killed by signal 200"


def test_a_process_that_died_with_its_parent_says_how_the_parent_ended() -> None:
    ended = ProcessExit(code=-9, parent=ProcessExit(code=1))
    assert ended.describe() == "killed because its parent process ended (exit code 1)"


def test_an_explanation_replaces_the_exit_code() -> None:
    assert ProcessExit(code=52, explanation="out of memory").describe() == "out of memory"

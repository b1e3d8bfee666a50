"""Errors that no code catches."""

import asyncio
import logging
import threading

import pytest

from stoker.cli.service import serve_until_signal
from stoker.config.configuration import Configuration
from stoker.config.load import configuration_from
from stoker.config.options import ALL
from stoker.config.processes import UncaughtExceptions
from stoker.config.sources import settings_on_command_line
from stoker.config.tree import OptionTree
from stoker.processes.announcement import Announce
from stoker.processes.uncaught import Uncaught, UncaughtErrors, uncaught_errors


def break_a_thread() -> None:
    def work() -> None:
        raise ZeroDivisionError("in a thread")

    thread = threading.Thread(target=work, name="breaking")
    thread.start()
    thread.join()


def break_a_callback() -> None:
    asyncio.get_running_loop().call_soon(lambda: 1 // 0)


def break_a_task() -> None:
    async def work() -> None:
        raise ZeroDivisionError("in a task")

    task = asyncio.get_running_loop().create_task(work())
    task.add_done_callback(lambda _: None)
    del task


@pytest.mark.parametrize("break_something", [break_a_thread, break_a_callback, break_a_task])
async def test_with_the_option_fail_an_uncaught_error_is_raised(break_something) -> None:  # type: ignore[no-untyped-def]
    """The process ends, because its state is unknown (ENTRY-08)."""
    async with uncaught_errors(UncaughtExceptions.FAIL) as errors, asyncio.timeout(30):
        break_something()
        with pytest.raises(Uncaught, match="ZeroDivisionError") as raised:
            await errors.raise_first()
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


async def test_with_the_option_log_an_uncaught_error_is_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The process continues (ENTRY-08)."""
    async with uncaught_errors(UncaughtExceptions.LOG) as errors:
        with caplog.at_level(logging.ERROR):
            break_a_thread()
            break_a_callback()
            waiting = asyncio.ensure_future(errors.raise_first())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()
    assert len(caplog.records) == 2


async def test_afterwards_the_previous_error_handlers_are_restored() -> None:
    before = threading.excepthook
    async with uncaught_errors(UncaughtExceptions.FAIL) as errors:
        assert isinstance(errors, UncaughtErrors)
        assert threading.excepthook is not before
    assert threading.excepthook is before
    assert asyncio.get_running_loop().get_exception_handler() is None


def test_an_uncaught_error_gives_the_exit_code_of_a_fatal_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A service manager can tell it from an orderly end (ENTRY-08, TM-21)."""

    async def serve(_configuration: Configuration, _announce: Announce) -> int:
        async with uncaught_errors(UncaughtExceptions.FAIL) as errors:
            break_a_thread()
            await errors.raise_first()
        return 0

    configuration = configuration_from(OptionTree(ALL), settings_on_command_line([]))
    assert serve_until_signal(serve, configuration) == 2
    assert "uncaught ZeroDivisionError: in a thread" in capsys.readouterr().err

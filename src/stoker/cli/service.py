"""Run a master or a task executor in the foreground, where a service manager expects it.

The exit code tells the service manager whether the process could not start or an error ended it
later. Neither the log nor the error message shows a credential.
"""

import asyncio
import os
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import click
import uvloop

from stoker.cli.errors import DEBUG
from stoker.cli.exit_codes import FAILED, FATAL
from stoker.cli.output import echo_json_line
from stoker.config.configuration import Configuration
from stoker.config.processes import ProcessOptions
from stoker.core.errors import InvalidInput, InvalidOption, StartupFailed, StokerError
from stoker.osproc.private_files import private_umask
from stoker.processes.announcement import Announce, Announcement, ignore_announcement
from stoker.processes.log_format import log_to_error_stream
from stoker.security.redaction import without_credentials

Serve = Callable[[Configuration, Announce], Coroutine[Any, Any, int]]
"""Returns the exit code of the process."""


def serve_until_signal(serve: Serve, configuration: Configuration, *, json: bool = False) -> int:
    """Run until asked to end. Exit code 1: it could not start; 2: an error ended it later.

    With `json` it prints a line when it is ready and one when it has ended. New files are for the
    user of the process alone; only user code gets the umask of before.
    """
    with private_umask() as umask:
        configuration = configuration.with_default(
            "runner.umask", f"{umask:03o}", origin="umask of the process"
        )
        code, failure = _serve(serve, configuration, _announce if json else ignore_announcement)
    if json:
        echo_json_line({"event": "ended", "exit_code": code, "failure": failure})
    return code


def _serve(
    serve: Serve, configuration: Configuration, announce: Announce
) -> tuple[int, str | None]:
    """The exit code of the process, and the error that ended it."""
    try:
        with log_to_error_stream(configuration.of(ProcessOptions)):
            return run(serve(configuration, announce)), None
    except InvalidOption:
        # Reported like any other wrong option.
        raise
    except (StartupFailed, InvalidInput) as error:
        return _report(error, error.message, FAILED)
    except StokerError as error:
        return _report(error, error.message, FATAL)
    # The top of the process: an operator looks for the traceback in the log.
    except Exception as error:
        _print_traceback(error)
        return _report(error, f"{type(error).__name__}: {error}", FATAL)


def _announce(announcement: Announcement) -> None:
    echo_json_line({"event": "ready", "id": announcement.id, "address": announcement.address})


def _report(error: BaseException, message: str, code: int) -> tuple[int, str]:
    if os.environ.get(DEBUG):
        _print_traceback(error)
    shown = without_credentials(message)
    click.echo(f"Error: {shown}", err=True)
    return code, shown


def _print_traceback(error: BaseException) -> None:
    click.echo(without_credentials("".join(traceback.format_exception(error))), err=True, nl=False)


T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`, on uvloop, which needs a sixth less processor time for each job."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)

"""Running a master or task executor in the foreground, as a service manager does."""

import os
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

import click

from stoker.aio.loop import run
from stoker.cli.errors import DEBUG
from stoker.cli.exit_codes import FAILED, FATAL
from stoker.cli.output import echo_line
from stoker.config.configuration import Configuration
from stoker.config.processes import ProcessOptions
from stoker.core.errors import InvalidInput, InvalidOption, StartupFailed, StokerError
from stoker.processes.announcement import Announce, Announcement, announce_to_nobody
from stoker.processes.log_format import log_to_error_stream
from stoker.security.redaction import without_credentials

Serve = Callable[[Configuration, Announce], Coroutine[Any, Any, int]]
"""Its value is the exit code of the process."""


def serve_until_signal(serve: Serve, configuration: Configuration, *, json: bool = False) -> int:
    """0 when it was asked to end, 1 when it could not start, 2 when something broke it later.

    As `json` it says on standard output that it is ready, and how it ended: one line each.
    """
    code, failure = _serve(serve, configuration, _announce if json else announce_to_nobody)
    if json:
        echo_line({"event": "ended", "exit_code": code, "failure": failure})
    return code


def _serve(
    serve: Serve, configuration: Configuration, announce: Announce
) -> tuple[int, str | None]:
    """The exit code, and what broke it."""
    try:
        with log_to_error_stream(configuration.of(ProcessOptions)):
            return run(serve(configuration, announce)), None
    except InvalidOption:
        # Told like any other wrong option.
        raise
    except (StartupFailed, InvalidInput) as error:
        return _last_words(error, error.message, FAILED)
    except StokerError as error:
        return _last_words(error, error.message, FATAL)
    # The top of the process; the log is where an operator looks for the place.
    except Exception as error:
        traceback.print_exception(error)
        return _last_words(error, f"{type(error).__name__}: {error}", FATAL)


def _announce(announcement: Announcement) -> None:
    echo_line({"event": "ready", "id": announcement.id, "address": announcement.address})


def _last_words(error: BaseException, message: str, code: int) -> tuple[int, str]:
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    click.echo(f"Error: {message}", err=True)
    return code, without_credentials(message)

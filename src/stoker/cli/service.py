"""Running a master or task executor in the foreground, as a service manager does."""

import logging
import os
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
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
from stoker.security.redaction import without_credentials

Serve = Callable[[Configuration, Announce], Coroutine[Any, Any, int]]
"""Its value is the exit code of the process."""

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


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
        with _log_on_error_stream(configuration.of(ProcessOptions).log_level):
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


class _Discreet(logging.Formatter):
    """What a job was given, and an error quotes, is not for whoever reads the log."""

    def format(self, record: logging.LogRecord) -> str:
        return without_credentials(super().format(record))


@contextmanager
def _log_on_error_stream(level: str) -> Iterator[None]:
    if level.upper() not in _LEVELS:
        raise InvalidOption(f"process.log-level is {level}; write one of {', '.join(_LEVELS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Discreet(_FORMAT))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())
    # Tells of every request that is forwarded, which the access to the leader is not worth.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.removeHandler(handler)


def _last_words(error: BaseException, message: str, code: int) -> tuple[int, str]:
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    click.echo(f"Error: {message}", err=True)
    return code, without_credentials(message)

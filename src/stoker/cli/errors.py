"""Where errors end: each becomes a message and an exit code.

A traceback is printed only if STOKER_DEBUG is set.
"""

import os
import sys
import traceback

import click

from stoker.cli.exit_codes import FAILED, INTERRUPTED, USAGE
from stoker.core.errors import InvalidJobGraph, InvalidOption, StokerError
from stoker.core.extras import remedy_for

DEBUG = "STOKER_DEBUG"


def report(error: BaseException) -> int:
    """Print what went wrong to the error stream; return the exit code of the command."""
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    match error:
        case click.Abort() | KeyboardInterrupt():
            click.echo("Interrupted.", err=True)
            return INTERRUPTED
        case click.ClickException():
            error.show()
            return error.exit_code
        case StokerError():
            click.echo(f"Error: {text_of(error)}", err=True)
            return USAGE if isinstance(error, InvalidOption) else FAILED
        case BrokenPipeError():
            # The reader of our output has closed the pipe: discard what is still buffered.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        case OSError():
            click.echo(f"Error: {error.strerror or error}{_file_of(error)}", err=True)
            return FAILED
        case ImportError() if (remedy := remedy_for(error)) is not None:
            click.echo(
                f"Error: this needs {error.name}, which is not installed: {remedy}", err=True
            )
            return FAILED
        case _:
            click.echo(
                f"Error: this should not happen: {type(error).__name__}: {error}\n"
                f"It is a bug in Stoker; {DEBUG}=1 shows where it happened.",
                err=True,
            )
            return FAILED


def text_of(error: StokerError) -> str:
    faults = error.facts.get("faults") if isinstance(error, InvalidJobGraph) else None
    if faults and len(faults) > 1:
        return "the job cannot be accepted:" + "".join(f"\n  - {fault}" for fault in faults)
    return error.message


def _file_of(error: OSError) -> str:
    if error.filename:
        return f": {error.filename}"
    if isinstance(error, FileNotFoundError) and not _current_directory_exists():
        return ": your current directory was removed; change to another one"
    return ""


def _current_directory_exists() -> bool:
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False

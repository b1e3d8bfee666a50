"""How the end of a user's program becomes the failure of its task, on both engines.

The runner or driver in which a program runs uses this, and so does the task executor, when the
process ended before it could report anything.
"""

from stoker.core.results import Failure
from stoker.osproc.exit import ProcessExit

EXIT_CODE = "exit-code"
"""Label of a failure: the exit code of the program, as a shell shows it."""
UNCAUGHT_EXCEPTION = 1
"""The exit code of Python after an uncaught exception."""


def exit_code_of(error: SystemExit) -> int:
    """The exit code that Python derives from the argument of sys.exit()."""
    if error.code is None:
        return 0
    return error.code & 0xFF if isinstance(error.code, int) else 1


def failure_of_exit(code: int, argument: object = None) -> Failure:
    """The failure of a program that called sys.exit() with this argument."""
    reason = f": {argument}" if isinstance(argument, str) else ""
    return Failure(
        error="ProgramFailed",
        message=f"the program ended with exit code {code}{reason}",
        labels={EXIT_CODE: str(code)},
    )


def failure_of_death(ended: ProcessExit, hint: str = "") -> Failure:
    """The failure of a program whose process ended before the program returned."""
    if ended.code == 0:
        # The program may have begun work at the shared server, so this is not a success.
        return failure_of_exit(
            UNCAUGHT_EXCEPTION, "it ended its own process; let it return, or call sys.exit()"
        )
    if ended.signal is None:
        return failure_of_exit(ended.code)
    return Failure(
        error="ProgramCrashed",
        message=f"the program was {ended.describe()}{hint}",
        labels={EXIT_CODE: str(ended.shell_code)},
    )

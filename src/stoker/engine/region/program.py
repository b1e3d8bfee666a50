"""Running a script as `python script.py arguments` would, in a process that is already there."""

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType, TracebackType

import msgspec

from stoker.core.errors import StokerError
from stoker.core.graph import Program
from stoker.core.results import Failure
from stoker.engine.failures import CannotRun, failure_of
from stoker.engine.protocol import RunTask

EXIT_CODE = "exit-code"
"""Label of a failure: the code with which the program ended, as a shell would show it."""
_UNCAUGHT = 1


def enter(directory: str | None, otherwise: Path, environment: Mapping[str, str]) -> str:
    """Goes to the program's working directory, sets its variables; the directory it is in."""
    os.environ.update(environment)
    wanted = Path(directory) if directory is not None else otherwise
    if not (wanted.is_dir() and os.access(wanted, os.X_OK)):
        wanted = otherwise
    wanted.mkdir(parents=True, exist_ok=True)
    os.chdir(wanted)
    return str(wanted)


def execute(script: str, arguments: Sequence[str]) -> None:
    """Runs it as the main module. What it raises comes out, SystemExit among it."""
    main = ModuleType("__main__")
    main.__file__ = script
    main.__dict__["__builtins__"] = __builtins__
    # Not taken back: its threads, its exit handlers and pickle still need it afterwards.
    sys.modules["__main__"] = main
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    try:
        code = compile(Path(script).read_bytes(), script, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise CannotRun("SyntaxError", "".join(traceback.format_exception_only(error))) from error
    exec(code, main.__dict__)


def exit_code_of(error: SystemExit) -> int:
    """What Python makes of the argument of sys.exit()."""
    if error.code is None:
        return 0
    return error.code & 0xFF if isinstance(error.code, int) else 1


def failure_of_exit(code: int, said: object = None) -> Failure:
    reason = f": {said}" if isinstance(said, str) else ""
    return Failure(
        error="ProgramFailed",
        message=f"the program ended with exit code {code}{reason}",
        labels={EXIT_CODE: str(code)},
    )


def failure_of_death(ending: str, code: int, hint: str = "") -> Failure:
    """For one that ended its own process, or was killed: `code` as a shell shows it."""
    if code == 0:
        # Success cannot be claimed for what it may have begun at a server that others share.
        return failure_of_exit(_UNCAUGHT, "it ended its own process; let it return, or sys.exit()")
    if not ending.startswith("killed"):
        return failure_of_exit(code)
    return Failure(
        error="ProgramCrashed",
        message=f"the program was {ending}{hint}",
        labels={EXIT_CODE: str(code)},
    )


def failure_of_error(error: BaseException) -> Failure:
    """For what nobody in the program caught."""
    failure = failure_of(error)
    labels = {**failure.labels, EXIT_CODE: str(_UNCAUGHT)}
    return msgspec.structs.replace(failure, labels=labels)


def print_uncaught(error: BaseException, script: str) -> None:
    """The traceback as Python shows it, beginning at the script's own first line."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != script:
        trace = trace.tb_next
    shown: TracebackType | None = trace or error.__traceback__
    traceback.print_exception(type(error), error, shown, file=sys.stderr)


class ProgramFailed(StokerError):
    def __init__(self, code: int, said: object) -> None:
        super().__init__(failure_of_exit(code, said).message)
        self.labels = {EXIT_CODE: str(code)}


def run_on_connect(program: Program, task: RunTask) -> None:
    """Raises what the program raises; ProgramFailed when it exits with another code than 0."""
    directory = Path(task.directory)
    enter(program.directory, directory / "work", program.environment)
    try:
        execute(str(directory / program.script), program.arguments)
    except SystemExit as error:
        code = exit_code_of(error)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        if code != 0:
            raise ProgramFailed(code, error.code) from None

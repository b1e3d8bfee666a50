"""Run a script as `python script.py arguments` would, in a process that already runs."""

import importlib.util
import linecache
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType, TracebackType

import msgspec

from stoker.core.errors import StokerError
from stoker.core.graph import Program
from stoker.core.results import Failure
from stoker.engine.failures import CannotRun, failure_of
from stoker.engine.program_exit import (
    EXIT_CODE,
    UNCAUGHT_EXCEPTION,
    exit_code_of,
    failure_of_exit,
)
from stoker.engine.protocol import RunTask
from stoker.engine.region.relative_paths import RelativePaths


def enter(caller: Path | None, otherwise: Path, environment: Mapping[str, str]) -> None:
    """Set the program's environment and enter its working directory: that of its caller.

    If that is not here, it is `otherwise`, which is removed at the end of the attempt.
    """
    os.environ.update(environment)
    if caller is not None and os.access(caller, os.X_OK):
        os.chdir(caller)
        return
    otherwise.mkdir(parents=True, exist_ok=True)
    os.chdir(otherwise)


def execute(script: str, arguments: Sequence[str], name: str) -> None:
    """Run the script as the main module; whatever it raises, SystemExit included, propagates.

    Tracebacks call the file by `name`: its copy here means nothing to the author.
    """
    main = ModuleType("__main__")
    main.__file__ = script
    main.__dict__["__builtins__"] = __builtins__
    # Not undone: the script's threads, exit handlers and pickle still need the module later.
    sys.modules["__main__"] = main
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    source = Path(script).read_bytes()
    _show_source_as(name, source)
    try:
        code = compile(source, name, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise CannotRun("SyntaxError", "".join(traceback.format_exception_only(error))) from error
    exec(code, main.__dict__)


def _show_source_as(name: str, source: bytes) -> None:
    """Let tracebacks show the lines of a file that need not exist here under this name."""
    with suppress(SyntaxError, UnicodeDecodeError):
        lines = importlib.util.decode_source(source).splitlines(keepends=True)
        # Without a time of change, the entry stays.
        linecache.cache[name] = (len(source), None, lines, name)


def name_of(program: Program) -> str:
    return program.path or program.script


def failure_of_error(error: BaseException) -> Failure:
    """The failure of a program that did not catch this exception."""
    failure = failure_of(error)
    labels = {**failure.labels, EXIT_CODE: str(UNCAUGHT_EXCEPTION)}
    return msgspec.structs.replace(failure, labels=labels)


def print_uncaught(error: BaseException, name: str) -> None:
    """Print the traceback as Python does, starting in the script itself."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != name:
        trace = trace.tb_next
    shown: TracebackType | None = trace or error.__traceback__
    traceback.print_exception(type(error), error, shown, file=sys.stderr)


class ProgramFailed(StokerError):
    """The program ended with an exit code other than 0."""

    def __init__(self, code: int, reason: object) -> None:
        super().__init__(failure_of_exit(code, reason).message)
        self.labels = {EXIT_CODE: str(code)}


def run_on_connect(program: Program, task: RunTask, paths: RelativePaths) -> None:
    """Run a program in the runner's session; raises ProgramFailed if its exit code is not 0."""
    directory = Path(task.directory)
    enter(paths.base, directory / "work", program.environment)
    try:
        execute(str(directory / program.script), program.arguments, name_of(program))
    except SystemExit as error:
        code = exit_code_of(error)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        if code != 0:
            raise ProgramFailed(code, error.code) from None

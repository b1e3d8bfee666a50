"""A program on the shared Spark server: its session is the runner's."""

import sys
from pathlib import Path

from stoker.core.errors import StokerError
from stoker.core.graph import Program
from stoker.engine.protocol import RunTask
from stoker.engine.region.program import EXIT_CODE, enter, execute, exit_code_of, failure_of_exit


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

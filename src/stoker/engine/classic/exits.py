"""The outcome of a task, from how its driver ended.

A driver may die before it can report anything, and what it reports may be a mere consequence of the
death of its JVM. So the exit code and the last lines of its output count as well.
"""

import signal
from dataclasses import dataclass

import msgspec

from stoker.core.results import Failure
from stoker.core.states import ExecutionState
from stoker.engine.program_exit import EXIT_CODE, failure_of_exit
from stoker.engine.protocol import Ended
from stoker.osproc.exit import ProcessExit

_JAVA_OUT_OF_MEMORY = "java.lang.OutOfMemoryError"
_JVM_LAST_LINE = f"Terminating due to {_JAVA_OUT_OF_MEMORY}"
"""The last line that a JVM out of memory writes to its standard output."""
_NO_MASTER = "All masters are unresponsive"
"""Logged by Spark after a minute; its exception says only that the context has stopped."""

_MEANINGS: dict[int, str] = {
    signal.SIGSEGV: "; compiled code in it accessed invalid memory",
    signal.SIGABRT: "; compiled code in it aborted",
}


@dataclass(frozen=True, kw_only=True)
class End:
    state: ExecutionState
    failure: Failure | None = None


def end_of(
    code: int, ended: Ended | None, last_words: str, last_output: str = "", *, cancelled: bool
) -> End:
    """Decide from the exit code, the driver's own message, and its last output.

    A negative code is the number of a signal.
    """
    if cancelled:
        return End(state=ExecutionState.CANCELED)
    reported = ended.failure if ended is not None else None
    java_error = _error_line(last_words, _JAVA_OUT_OF_MEMORY) or _error_line(
        last_output, _JVM_LAST_LINE
    )
    if java_error and (reported is not None or code != 0):
        return _failed(
            Failure(
                error="OutOfMemory",
                message=f"the program's JVM ran out of memory: {java_error}; raise it with "
                "--conf spark.driver.memory=2g",
                stack_trace=reported.stack_trace if reported is not None else "",
            ),
            code,
        )
    if reported is not None:
        return _failed(_name_absent_master(reported, last_words), code)
    if code == 0:
        return End(state=ExecutionState.FINISHED)
    if code > 0:
        return _failed(_with_last_lines(failure_of_exit(code), last_words), code)
    return _failed(_killed(code, last_words), code)


def _killed(code: int, last_words: str) -> Failure:
    ending = ProcessExit(code=code).describe()
    if -code == signal.SIGKILL:
        return Failure(
            error="OutOfMemory",
            message=f"the program's process was {ending}, most likely because the machine ran out "
            "of memory, or the program exceeded its limit",
        )
    meaning = _MEANINGS.get(-code, "")
    failure = Failure(error="ProgramCrashed", message=f"the program was {ending}{meaning}")
    return _with_last_lines(failure, last_words)


def _with_last_lines(failure: Failure, last_words: str) -> Failure:
    lines = [line for line in last_words.splitlines() if line.strip()]
    return msgspec.structs.replace(failure, stack_trace="\n".join(lines[-10:]))


def _failed(failure: Failure, code: int) -> End:
    labels = {**failure.labels, EXIT_CODE: str(ProcessExit(code=code).shell_code or 1)}
    return End(state=ExecutionState.FAILED, failure=msgspec.structs.replace(failure, labels=labels))


def _name_absent_master(failure: Failure, last_words: str) -> Failure:
    """Replace the failure by its cause if the log shows that there is no Spark master."""
    if _NO_MASTER not in last_words:
        return failure
    return msgspec.structs.replace(
        failure,
        error="SparkMasterAbsent",
        message=f"no Spark master answers at the address that the program uses ({_NO_MASTER}); "
        "start it, or correct the master in the program",
    )


def _error_line(text: str, marker: str) -> str:
    for line in text.splitlines():
        if marker in line:
            return line[line.index(_JAVA_OUT_OF_MEMORY) :].strip()
    return ""

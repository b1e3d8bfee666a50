"""How a watched job is shown: its changes while it runs, what its program prints, its end.

The live picture for terminals is in `live_display`, apart from here because rich is slow to import.
"""

import sys
from collections.abc import Callable
from typing import Protocol

from stoker.cli.exit_codes import FAILED, OK
from stoker.cli.output import duration_text, say
from stoker.client.blocking import BlockingClient
from stoker.client.progress import views_of
from stoker.core.errors import NotFound, StokerError
from stoker.core.graph import JobGraph, Program, SqlScript
from stoker.core.headlines import headline_of
from stoker.core.ids import AttemptId, JobId
from stoker.core.results import AttemptDetails, Failure, FailureRecord, JobDetails
from stoker.core.states import ExecutionState, JobStatus
from stoker.gateways.attempt_logs import FAILURE_MARK


class Display(Protocol):
    """Shows one job; closed when the watching ends."""

    def show(self, details: JobDetails) -> None:
        """Show the present state of the job. Called often, also when nothing has changed."""

    def say(self, text: str) -> None:
        """Print a sentence that stays on the screen."""

    def print_output(self, stream: str, data: bytes) -> None:
        """Print what the job has printed on `stdout` or `stderr`."""

    def set_aside(self) -> None:
        """Give the terminal back for a question; the next `show` takes it again."""

    def close(self) -> None: ...


class PlainDisplay:
    """One line for each change, for logs and pipes."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self._printed: dict[str, str] = {}

    def show(self, details: JobDetails) -> None:
        if not details.status.globally_terminal:
            self._print_status(details)
        for view in views_of(details):
            words = view.words if view.state.terminal else view.words.partition(",")[0]
            state = view.state.value.lower()
            detail = f" ({words})" if words not in (state, "cancelled") else ""
            self._print(view.name, f"  {view.name}: {state}", detail)
        if details.waiting:
            self._print("waiting", f"  waits: {details.waiting}")
        if details.status.globally_terminal:
            self._print_status(details)

    def print_output(self, stream: str, data: bytes) -> None:
        write_output(stream, data)

    def set_aside(self) -> None:
        """Lines need no terminal to be given back."""

    def close(self) -> None:
        """There is nothing to close."""

    def _print_status(self, details: JobDetails) -> None:
        since = duration_text(max(details.timestamps.values(), default=0) - details.start)
        self._print("job", f"{details.name} is {details.status.value}", f" after {since}")

    def _print(self, subject: str, text: str, detail: str = "") -> None:
        """Print the text unless it is the last one about this subject."""
        if self._printed.get(subject) != text:
            self._printed[subject] = text
            self.say(text + detail)


def write_output(stream: str, data: bytes) -> None:
    """Write the bytes of a job's output unchanged to the same stream of this process."""
    target = sys.stdout.buffer if stream == "stdout" else sys.stderr.buffer
    target.write(data)
    target.flush()


def display_on_stderr(*, quiet: bool = False, plain: bool = False) -> Display:
    """A live picture at a terminal; lines elsewhere or if `plain`; nothing if `quiet`."""
    if quiet:
        return PlainDisplay(lambda _text: None)
    if plain or not sys.stderr.isatty():
        return PlainDisplay(say)
    # Imported late: rich is slow to import, and a pipe does not need it.
    from rich.console import Console  # noqa: PLC0415

    from stoker.cli.live_display import LiveDisplay  # noqa: PLC0415

    return LiveDisplay(Console(stderr=True))


# What a job prints

_SILENT = (ExecutionState.CREATED, ExecutionState.SCHEDULED, ExecutionState.DEPLOYING)
_STREAMS = ("stdout", "stderr")
_COMPLETE = -1
"""In place of an offset: the stream has been printed to its end."""
_KEPT_BYTES = 64 * 1024


def is_program(graph: JobGraph) -> bool:
    return any(isinstance(vertex, Program) for vertex in graph.vertices)


def is_script(graph: JobGraph) -> bool:
    return any(isinstance(vertex, SqlScript) for vertex in graph.vertices)


class OutputDisplay:
    """Adds to another display what the job's own code prints, on the same two streams.

    `program`: the job is a program, whose error stream is printed to its end. That of other jobs
    ends with the failure of the task, which the end of the job tells anyway.
    """

    def __init__(
        self, display: Display, client: BlockingClient, job_id: JobId, *, program: bool
    ) -> None:
        self._display = display
        self._client = client
        self._job_id = job_id
        self._is_program = program
        self._offsets: dict[tuple[AttemptId, str], int] = {}
        self._errors = b""

    @property
    def printed_errors(self) -> str:
        """The end of what the program has printed to its error stream."""
        return self._errors.decode(errors="replace")

    def show(self, details: JobDetails) -> None:
        if not details.status.globally_terminal:
            self._display.show(details)
        for region in details.regions:
            for attempt in (*region.former, region.current):
                self._print_new_output(attempt)
        if details.status.globally_terminal:
            self._display.show(details)

    def say(self, text: str) -> None:
        self._display.say(text)

    def print_output(self, stream: str, data: bytes) -> None:
        self._display.print_output(stream, data)

    def set_aside(self) -> None:
        self._display.set_aside()

    def close(self) -> None:
        self._display.close()

    def _print_new_output(self, attempt: AttemptDetails) -> None:
        if attempt.state in _SILENT:
            return
        for stream in _STREAMS:
            key = (attempt.attempt, stream)
            if self._offsets.get(key) != _COMPLETE:
                self._offsets[key] = self._print_from(attempt, stream, self._offsets.get(key, 0))

    def _print_from(self, attempt: AttemptDetails, stream: str, offset: int) -> int:
        """Print what is there; return the offset to continue from, or _COMPLETE."""
        while True:
            try:
                piece = self._client.attempt_log(self._job_id, attempt.attempt, stream, offset)
            except NotFound:
                return _COMPLETE if attempt.state.terminal else offset
            except StokerError:
                # The next call of `show` asks again: a log must not end the watching of the job.
                return offset
            data, is_failure = piece.data, False
            if stream == "stderr" and not self._is_program:
                data, is_failure = before_failure(data, complete=piece.complete)
            if data:
                self.print_output(stream, data)
            if stream == "stderr":
                self._errors = (self._errors + data)[-_KEPT_BYTES:]
            if is_failure or piece.complete:
                return _COMPLETE
            offset += len(data)
            if not data:
                return offset


_MARK = f"{FAILURE_MARK}\n".encode()


def before_failure(data: bytes, *, complete: bool) -> tuple[bytes, bool]:
    """The part before the mark of the task's failure, and whether the mark is there.

    Bytes with which the mark may begin are left for the next call, unless the output is complete.
    """
    text, mark, _ = data.partition(_MARK)
    if mark or complete:
        return text, bool(mark)
    start = next(at for at in range(len(_MARK), -1, -1) if data.endswith(_MARK[:at]))
    return data[: len(data) - start], False


# How a job ended


def exit_code_of(details: JobDetails) -> int:
    """The exit code of a failed program is passed on; other jobs end with OK or FAILED."""
    if details.status is JobStatus.FINISHED:
        return OK
    if details.status is JobStatus.FAILED and details.failures:
        code = details.failures[0].failure.labels.get("exit-code", "")
        return int(code) if code.isdigit() and 0 < int(code) < 256 else FAILED
    return FAILED


def job_end_text(
    details: JobDetails, *, trace: bool = False, already_told: str = "", temporary: bool = False
) -> str:
    """One line, and for a job that failed its failure and where it happened.

    A failure that the program itself has `already_told` on its error stream is not told again. A
    `temporary` cluster is gone when the text is read, and answers no questions.
    """
    took = duration_text((details.end or details.start) - details.start)
    line = f"Job {details.job_id} ({details.name}) {details.status.value} after {took}."
    if details.status is not JobStatus.FAILED or not details.failures:
        return line
    record = details.failures[0]
    if not trace and headline_of(record.failure) in already_told:
        return line
    more = "run it with --trace" if temporary else f"stoker status {details.job_id[:12]} --trace"
    return f"{line}\n\n{failure_text(record, more, trace=trace)}"


def failure_text(record: FailureRecord, more: str, *, trace: bool = False) -> str:
    """The cause and the place, and how to see `more`; with `trace`, all of it."""
    failure = record.failure
    headline = headline_of(failure)
    places = [f"  in {failure.place}"] if failure.place else []
    if trace:
        lines = [headline, *places, *_attempt_lines(record), "", *_trace_lines(failure)]
        return "\n".join(lines)
    if _trace_lines(failure) not in ([], [headline]):
        places.append(f"  (more: {more})")
    return "\n".join([headline, *places])


def _attempt_lines(record: FailureRecord) -> list[str]:
    facts = [f"region {record.region}", f"attempt {record.attempt_number + 1}"]
    facts += [f"on {record.task_executor}"] if record.task_executor else []
    return [f"  {', '.join(facts)}"] if record.region else []


def _trace_lines(failure: Failure) -> list[str]:
    """Message and frames, each once."""
    message = f"{failure.error}: {failure.message}".strip()
    whole = failure.stack_trace.strip()
    text = whole if failure.message in whole else f"{message}\n{whole}".strip()
    return text.splitlines()

"""What a job prints appears where the user started it."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import integers

from builders import build_details
from stoker.api.jobs import LogAnswer
from stoker.cli.display import OutputDisplay, before_failure, exit_code_of, write_output
from stoker.core.errors import NotFound, Unavailable
from stoker.core.ids import AttemptId, JobId, RegionId
from stoker.core.results import (
    AttemptDetails,
    Failure,
    FailureRecord,
    JobDetails,
    RegionDetails,
)
from stoker.core.states import ExecutionState, JobStatus
from stoker.gateways.attempt_logs import FAILURE_MARK

JOB = JobId("1" * 32)


@dataclass
class RecordingDisplay:
    shown: list[JobDetails] = field(default_factory=list)

    def show(self, details: JobDetails) -> None:
        self.shown.append(details)

    def say(self, text: str) -> None: ...

    def print_output(self, stream: str, data: bytes) -> None:
        write_output(stream, data)

    def set_aside(self) -> None: ...

    def close(self) -> None: ...


@dataclass
class FakeLogs:
    """A fake client that serves logs in pieces and raises the exceptions among them."""

    content: dict[str, list[Any]]
    requests: list[tuple[str, int]] = field(default_factory=list)

    def attempt_log(self, _job: JobId, _attempt: AttemptId, stream: str, offset: int) -> LogAnswer:
        self.requests.append((stream, offset))
        pieces = self.content.get(stream, [])
        piece = pieces.pop(0) if pieces else b""
        if isinstance(piece, Exception):
            raise piece
        return LogAnswer(
            data=piece, next_offset=offset + len(piece), complete=not pieces and piece == b"end\n"
        )


def output_display(
    logs: FakeLogs, inner: RecordingDisplay | None = None, *, program: bool = True
) -> OutputDisplay:
    client: Any = logs
    return OutputDisplay(inner or RecordingDisplay(), client, JOB, program=program)


def details(
    state: ExecutionState, status: JobStatus = JobStatus.RUNNING, **labels: str
) -> JobDetails:
    attempt = AttemptDetails(attempt=AttemptId("2" * 32), number=0, state=state)
    region = RegionDetails(
        id=RegionId("program"), vertices=("program",), streaming=False, current=attempt
    )
    names = {key.replace("_", "-"): value for key, value in labels.items()}
    failure = FailureRecord(failure=Failure(error="E", message="m", labels=names), at=1)
    return build_details(status, job_id=JOB, regions=(region,), failures=(failure,))


def test_output_goes_to_the_stream_it_came_from(capfdbinary: Any) -> None:
    logs = FakeLogs({"stdout": [b"one\n", b"two\n"], "stderr": [b"oops\n"]})
    display = output_display(logs)
    display.show(details(ExecutionState.RUNNING))
    out, err = capfdbinary.readouterr()
    assert (out, err) == (b"one\ntwo\n", b"oops\n")
    logs.content["stdout"] = [b"three\n", b"end\n"]
    display.show(details(ExecutionState.RUNNING))
    assert capfdbinary.readouterr().out == b"three\nend\n"


def test_logs_are_not_requested_before_the_program_runs_or_after_their_end() -> None:
    logs = FakeLogs({"stdout": [b"end\n"], "stderr": [b"end\n"]})
    display = output_display(logs)
    display.show(details(ExecutionState.SCHEDULED))
    assert logs.requests == []
    display.show(details(ExecutionState.FINISHED))
    display.show(details(ExecutionState.FINISHED))
    assert logs.requests == [("stdout", 0), ("stderr", 0)]


def test_a_log_that_cannot_be_read_is_requested_again(capfdbinary: Any) -> None:
    logs = FakeLogs(
        {"stdout": [b"a\n", Unavailable("no leader")], "stderr": [NotFound("none yet")]}
    )
    inner = RecordingDisplay()
    display = output_display(logs, inner)
    display.show(details(ExecutionState.RUNNING))
    logs.content["stdout"] = [b"b\n"]
    display.show(details(ExecutionState.RUNNING))
    assert capfdbinary.readouterr().out == b"a\nb\n"
    assert len(inner.shown) == 2


TRACE = f"{FAILURE_MARK}\nTraceback\nend\n".encode()


def test_the_error_stream_of_a_program_is_shown_to_its_end(capfdbinary: Any) -> None:
    output_display(FakeLogs({"stderr": [TRACE, b"end\n"]})).show(details(ExecutionState.FAILED))
    assert capfdbinary.readouterr().err == TRACE + b"end\n"


def test_the_error_stream_of_a_pipeline_ends_before_the_failure_which_is_told_anyway(
    capfdbinary: Any,
) -> None:
    logs = FakeLogs({"stderr": [b"warned\n" + TRACE, b"more\n"]})
    display = output_display(logs, program=False)
    display.show(details(ExecutionState.FAILED))
    display.show(details(ExecutionState.FAILED))
    assert capfdbinary.readouterr().err == b"warned\n"


@given(cut=integers(min_value=0, max_value=len(TRACE) + 7))
def test_the_failure_is_recognized_wherever_a_piece_of_the_log_ends(cut: int) -> None:
    log = b"warned\n" + TRACE
    first, is_failure = before_failure(log[:cut], complete=False)
    rest, is_failure_after = before_failure(log[len(first) :], complete=True)
    assert first + (b"" if is_failure else rest) == b"warned\n"
    assert is_failure or is_failure_after


def test_the_beginning_of_a_mark_is_printed_when_nothing_follows_it() -> None:
    assert before_failure(b"a [", complete=False) == (b"a ", False)
    assert before_failure(b"a [", complete=True) == (b"a [", False)


@pytest.mark.parametrize(
    ("status", "labels", "code"),
    [
        (JobStatus.FINISHED, {}, 0),
        (JobStatus.FAILED, {"exit_code": "7"}, 7),
        (JobStatus.FAILED, {"exit_code": "139"}, 139),
        (JobStatus.FAILED, {"exit_code": "nonsense"}, 1),
        (JobStatus.FAILED, {"exit_code": "0"}, 1),
        (JobStatus.FAILED, {}, 1),
        (JobStatus.CANCELED, {"exit_code": "7"}, 1),
    ],
)
def test_the_command_exits_with_the_exit_code_of_the_program(
    status: JobStatus, labels: dict[str, str], code: int
) -> None:
    assert exit_code_of(details(ExecutionState.FAILED, status, **labels)) == code

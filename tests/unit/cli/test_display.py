"""The output of a program appears where the user started it."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from builders import build_details
from stoker.api.jobs import LogAnswer
from stoker.cli.display import ProgramDisplay, exit_code_of
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

JOB = JobId("1" * 32)


@dataclass
class RecordingDisplay:
    shown: list[JobDetails] = field(default_factory=list)

    def show(self, details: JobDetails) -> None:
        self.shown.append(details)

    def say(self, text: str) -> None: ...

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
    display = ProgramDisplay(RecordingDisplay(), logs, JOB)  # type: ignore[arg-type]
    display.show(details(ExecutionState.RUNNING))
    out, err = capfdbinary.readouterr()
    assert (out, err) == (b"one\ntwo\n", b"oops\n")
    logs.content["stdout"] = [b"three\n", b"end\n"]
    display.show(details(ExecutionState.RUNNING))
    assert capfdbinary.readouterr().out == b"three\nend\n"


def test_logs_are_not_requested_before_the_program_runs_or_after_their_end() -> None:
    logs = FakeLogs({"stdout": [b"end\n"], "stderr": [b"end\n"]})
    display = ProgramDisplay(RecordingDisplay(), logs, JOB)  # type: ignore[arg-type]
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
    display = ProgramDisplay(inner, logs, JOB)  # type: ignore[arg-type]
    display.show(details(ExecutionState.RUNNING))
    logs.content["stdout"] = [b"b\n"]
    display.show(details(ExecutionState.RUNNING))
    assert capfdbinary.readouterr().out == b"a\nb\n"
    assert len(inner.shown) == 2


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

"""Every call of the REST API as data: what is sent, and how the answer is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from urllib.parse import urlencode

import msgspec

from stoker.api.cluster import Overview, TaskManager, TaskManagers
from stoker.api.jobs import (
    ExceptionHistory,
    ExecutionResultAnswer,
    JobExceptions,
    JobExecutionResult,
    JobOverview,
    JobsOverview,
    JobStatusAnswer,
    Plan,
    PlanAnswer,
)
from stoker.api.quarantine import Quarantined, QuarantinedJobs
from stoker.api.submission import JobSubmitted
from stoker.core.errors import InvalidInput, RemoteError
from stoker.core.ids import JobId, is_hex_id
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

WAIT_SECONDS = 20.0
"""How long the server may hold a question for a change of a job."""


@dataclass(frozen=True, kw_only=True)
class Call(Generic[T]):
    method: str
    path: str
    read: Callable[[bytes], T]
    query: Mapping[str, str] = field(default_factory=dict)
    waits: float = 0.0
    """Seconds that the answer may take on purpose, on top of the usual timeout."""

    @property
    def target(self) -> str:
        return f"/v1{self.path}?{urlencode(self.query)}" if self.query else f"/v1{self.path}"


def jobs() -> Call[list[JobOverview]]:
    return _get("/jobs/overview", JobsOverview, lambda answer: answer.jobs)


def job(job_id: JobId) -> Call[JobDetails]:
    return _get(_job_path(job_id, "/details"), JobDetails, lambda answer: answer)


def status(job_id: JobId) -> Call[JobStatus]:
    return _get(_job_path(job_id, "/status"), JobStatusAnswer, lambda answer: answer.status)


def change(job_id: JobId, known: JobStatus, seconds: float = WAIT_SECONDS) -> Call[JobStatus]:
    return Call(
        method="GET",
        path=_job_path(job_id, "/status"),
        query={"wait": f"{seconds:g}", "known": known.value},
        waits=seconds,
        read=lambda body: _decoded(body, JobStatusAnswer).status,
    )


def result(job_id: JobId) -> Call[JobExecutionResult | None]:
    """None while the job has not ended."""
    return _get(
        _job_path(job_id, "/execution-result"),
        ExecutionResultAnswer,
        lambda answer: answer.job_execution_result or None,
    )


def plan(job_id: JobId) -> Call[Plan]:
    return _get(_job_path(job_id, "/plan"), PlanAnswer, lambda answer: answer.plan)


def exceptions(job_id: JobId) -> Call[ExceptionHistory]:
    return _get(
        _job_path(job_id, "/exceptions"), JobExceptions, lambda answer: answer.exception_history
    )


def cancel(job_id: JobId) -> Call[None]:
    return Call(
        method="PATCH", path=_job_path(job_id), query={"mode": "cancel"}, read=lambda _body: None
    )


def quarantined() -> Call[list[Quarantined]]:
    return _get("/quarantine", QuarantinedJobs, lambda answer: answer.jobs)


def retry_quarantined(job_id: JobId) -> Call[None]:
    return Call(
        method="POST", path=f"/quarantine/{_checked(job_id)}/retry", read=lambda _body: None
    )


def drop_quarantined(job_id: JobId) -> Call[None]:
    return Call(method="DELETE", path=f"/quarantine/{_checked(job_id)}", read=lambda _body: None)


def overview() -> Call[Overview]:
    return _get("/overview", Overview, lambda answer: answer)


def task_executors() -> Call[list[TaskManager]]:
    return _get("/taskmanagers", TaskManagers, lambda answer: answer.taskmanagers)


def submit() -> Call[JobSubmitted]:
    return Call(method="POST", path="/jobs", read=lambda body: _decoded(body, JobSubmitted))


def _job_path(job_id: JobId, suffix: str = "") -> str:
    return f"/jobs/{_checked(job_id)}{suffix}"


def _checked(job_id: JobId) -> JobId:
    if not is_hex_id(job_id.lower()):
        raise InvalidInput(f"a job id is 32 hexadecimal digits, found {job_id!r}")
    return job_id


def _get(path: str, kind: type[S], pick: Callable[[S], T]) -> Call[T]:
    return Call(method="GET", path=path, read=lambda body: pick(_decoded(body, kind)))


def _decoded(body: bytes, kind: type[S]) -> S:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise RemoteError(
            f"the answer is not one of a Stoker master ({error}); check the URL and the versions"
        ) from error

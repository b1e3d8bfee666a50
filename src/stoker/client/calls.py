"""Every call of the REST API as data: what is sent, and how the answer is read."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote, urlencode

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
from stoker.api.logs import LogAnswer
from stoker.api.quarantine import Quarantined, QuarantinedJobs
from stoker.api.queues import Queue, Queues
from stoker.api.replacements import ReplacementAnswer, ReplacementState
from stoker.api.savepoints import SavepointOutcome, Savepoints, outcome_of
from stoker.api.submission import JobSubmitted
from stoker.core.checkpoints import SavepointSummary
from stoker.core.errors import InvalidInput, RemoteError
from stoker.core.ids import AttemptId, JobId, ResourceId, is_hex_id
from stoker.core.replacements import ReplacementPhase
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus
from stoker.core.values import decode_json

if TYPE_CHECKING:
    from stoker.savepoints.manifest import SavepointView

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

WAIT_SECONDS = 20.0
"""How long the server may hold a question for a change of a job."""
STORED_BYTES_PER_SECOND = 5_000_000
"""At least so fast a master stores the files of a job; until then it cannot answer."""


@dataclass(frozen=True, kw_only=True)
class Replacing:
    """How a running job is replaced by another version of it."""

    directory: str | None = None
    """For the savepoint; None means the cluster's."""
    window_seconds: float = 30.0
    """For which the new version must run without a failure."""
    allow_non_restored_state: bool = False


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


def change(
    job_id: JobId, known: JobStatus | Iterable[JobStatus], seconds: float = WAIT_SECONDS
) -> Call[JobStatus]:
    """The status, as soon as it is none of the known ones, or when the time is over."""
    known = (known,) if isinstance(known, JobStatus) else known
    return Call(
        method="GET",
        path=_job_path(job_id, "/status"),
        query={"wait": f"{seconds:g}", "known": ",".join(known)},
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


def attempt_log(job_id: JobId, attempt: AttemptId, stream: str, offset: int) -> Call[LogAnswer]:
    return Call(
        method="GET",
        path=_job_path(job_id, f"/attempts/{quote(attempt, safe='')}/log"),
        query={"stream": stream, "offset": str(offset)},
        read=lambda body: _decoded(body, LogAnswer),
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


def client_heartbeat(job_id: JobId, seconds: float) -> Call[None]:
    return Call(
        method="PATCH",
        path=_job_path(job_id, "/clientHeartbeat"),
        query={"seconds": f"{seconds:g}"},
        read=lambda _body: None,
    )


def savepoint(
    job_id: JobId, trigger_id: str, directory: str | None, *, cancel: bool = False
) -> Call[None]:
    """Begun when it is answered; the same trigger id again is the same operation."""
    query = {"triggerId": trigger_id, "cancel-job": str(cancel).lower()}
    if directory is not None:
        query["target-directory"] = directory
    path = _job_path(job_id, "/savepoints")
    return Call(method="POST", path=path, query=query, read=lambda _body: None)


def stop(
    job_id: JobId, trigger_id: str, directory: str | None, limit_seconds: float | None
) -> Call[None]:
    query = {"triggerId": trigger_id}
    if directory is not None:
        query["targetDirectory"] = directory
    if limit_seconds is not None:
        query["limit-seconds"] = f"{limit_seconds:g}"
    path = _job_path(job_id, "/stop")
    return Call(method="POST", path=path, query=query, read=lambda _body: None)


def savepoint_outcome(job_id: JobId, trigger_id: str) -> Call[SavepointOutcome]:
    path = _job_path(job_id, f"/savepoints/{trigger_id}")
    return Call(method="GET", path=path, read=_operation)


def checkpoint(job_id: JobId, trigger_id: str) -> Call[None]:
    path = _job_path(job_id, "/checkpoints")
    query = {"triggerId": trigger_id}
    return Call(method="POST", path=path, query=query, read=lambda _body: None)


def checkpoint_outcome(job_id: JobId, trigger_id: str) -> Call[SavepointOutcome]:
    path = _job_path(job_id, f"/checkpoints/{trigger_id}")
    return Call(method="GET", path=path, read=_operation)


def savepoints(directory: str | None) -> Call[list[SavepointSummary]]:
    query = {} if directory is None else {"directory": directory}
    return Call(
        method="GET",
        path="/savepoints",
        query=query,
        read=lambda body: _decoded(body, Savepoints).savepoints,
    )


def show_savepoint(path: str) -> "Call[SavepointView]":
    # Few ask for it, and every command would wait for its import.
    from stoker.savepoints.manifest import SavepointView  # noqa: PLC0415

    return Call(
        method="GET",
        path="/savepoints/show",
        query={"path": path},
        read=lambda body: _decoded(body, SavepointView),
    )


def dispose_savepoint(path: str, trigger_id: str) -> Call[None]:
    query = {"savepoint-path": path, "triggerId": trigger_id}
    return Call(method="POST", path="/savepoint-disposal", query=query, read=lambda _body: None)


def disposal_outcome(trigger_id: str) -> Call[SavepointOutcome]:
    return Call(method="GET", path=f"/savepoint-disposal/{trigger_id}", read=_operation)


def _operation(body: bytes) -> SavepointOutcome:
    return outcome_of(_decoded(body, dict[str, Any]))


def upgrade(job_id: JobId, trigger_id: str, wanted: Replacing, length: int) -> Call[None]:
    """On record when it is answered; the same trigger id again is the same operation."""
    return Call(
        method="POST",
        path=_job_path(job_id, "/upgrade"),
        query={
            "triggerId": trigger_id,
            "allowNonRestoredState": str(wanted.allow_non_restored_state).lower(),
            **_replacing(wanted),
        },
        waits=length / STORED_BYTES_PER_SECOND,
        read=lambda _body: None,
    )


def rescale(job_id: JobId, trigger_id: str, partitions: int, wanted: Replacing) -> Call[None]:
    query = {"triggerId": trigger_id, "partitions": str(partitions), **_replacing(wanted)}
    path = _job_path(job_id, "/rescale")
    return Call(method="POST", path=path, query=query, read=lambda _body: None)


def _replacing(wanted: Replacing) -> dict[str, str]:
    query = {"window-seconds": f"{wanted.window_seconds:g}"}
    return query if wanted.directory is None else query | {"target-directory": wanted.directory}


def replacement(
    job_id: JobId, trigger_id: str, known: ReplacementPhase | None, seconds: float = WAIT_SECONDS
) -> Call[ReplacementState]:
    query = {"wait": f"{seconds:g}"} | ({} if known is None else {"known": known.value})
    return Call(
        method="GET",
        path=_job_path(job_id, f"/replacements/{trigger_id}"),
        query=query,
        waits=seconds,
        read=lambda body: _decoded(body, ReplacementAnswer).operation,
    )


def overview() -> Call[Overview]:
    return _get("/overview", Overview, lambda answer: answer)


def task_executors() -> Call[list[TaskManager]]:
    return _get("/taskmanagers", TaskManagers, lambda answer: answer.taskmanagers)


def submit(length: int) -> Call[JobSubmitted]:
    return Call(
        method="POST",
        path="/jobs",
        waits=length / STORED_BYTES_PER_SECOND,
        read=lambda body: _decoded(body, JobSubmitted),
    )


def shut_down() -> Call[None]:
    return Call(method="DELETE", path="/cluster", read=lambda _body: None)


def queues() -> Call[list[Queue]]:
    return _get("/queues", Queues, lambda answer: answer.queues)


def drain(resource_id: ResourceId, seconds: float | None) -> Call[None]:
    return Call(
        method="POST",
        path=f"/taskmanagers/{quote(resource_id, safe='')}/drain",
        query={} if seconds is None else {"timeout": f"{seconds:g}"},
        read=lambda _body: None,
    )


def _job_path(job_id: JobId, suffix: str = "") -> str:
    return f"/jobs/{_checked(job_id)}{suffix}"


def _checked(job_id: JobId) -> JobId:
    if not is_hex_id(job_id.lower()):
        raise InvalidInput(f"a job id is 32 hexadecimal digits, found {job_id!r}")
    return job_id


def _get(path: str, kind: type[S], pick: Callable[[S], T]) -> Call[T]:
    return Call(method="GET", path=path, read=lambda body: pick(_decoded(body, kind)))


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return decode_json(body, kind)
    except msgspec.DecodeError as error:
        raise RemoteError(
            f"the answer is not one of a Stoker master ({error}); check the URL and the versions"
        ) from error

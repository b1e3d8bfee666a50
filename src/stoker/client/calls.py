"""Every call of the REST API as data: what is sent, and how the answer is read.

A client that gets no answer cannot know whether the master has acted. So every call may be
repeated, also at another master: a query changes nothing, a graph carries its job's id, and an
operation carries a trigger id, under which the cluster starts it only once.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import msgspec

from stoker.api.cluster import ClusterOverviewAnswer, TaskManager, TaskManagers
from stoker.api.control import (
    AuditAnswer,
    QuarantineAnswer,
    QuarantinedJobAnswer,
    QueueAnswer,
    QueuesAnswer,
)
from stoker.api.events import EventsAnswer
from stoker.api.jobs import (
    ExecutionResultAnswer,
    JobExceptionHistory,
    JobExceptions,
    JobExecutionResult,
    JobOverview,
    JobPlan,
    JobsOverview,
    JobStatusAnswer,
    JobSubmitted,
    LogAnswer,
    PlanAnswer,
    RowsAnswer,
)
from stoker.api.operations import (
    ReplacementAnswer,
    ReplacementState,
    SavepointOutcome,
    Savepoints,
    outcome_of,
)
from stoker.client.steps import RestCall
from stoker.client.submission import SubmissionBody, new_boundary
from stoker.core.checkpoints import SavepointSummary
from stoker.core.errors import InvalidInput, RemoteError
from stoker.core.graph import JobGraph
from stoker.core.ids import AttemptId, JobId, ResourceId, is_hex_id
from stoker.core.replacements import ReplacementPhase
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus
from stoker.core.values import Millis, decode_json
from stoker.security.audit_entries import AuditEntry

if TYPE_CHECKING:
    from stoker.savepoints.manifest import SavepointView

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

WAIT_SECONDS = 20.0
"""How long a master may delay the answer to a status request until the job changes."""
STORED_BYTES_PER_SECOND = 5_000_000
"""Slowest expected rate at which a master stores a job's files before it answers."""


@dataclass(frozen=True, kw_only=True)
class ReplacementSettings:
    """How another version of a job replaces the running one."""

    directory: str | None = None
    """Where the savepoint goes; None means the cluster's directory."""
    window_seconds: float = 30.0
    """How long the new version must run without a failure."""
    allow_non_restored_state: bool = False


def jobs(*, with_owners: bool = False) -> RestCall[list[JobOverview]]:
    return RestCall(
        method="GET",
        path="/jobs/overview",
        query={"show": "owner"} if with_owners else {},
        read=lambda body: _decoded(body, JobsOverview).jobs,
    )


def job(job_id: JobId) -> RestCall[JobDetails]:
    return _get(_job_path(job_id, "/details"), JobDetails, lambda answer: answer)


def status(job_id: JobId) -> RestCall[JobStatus]:
    return _get(_job_path(job_id, "/status"), JobStatusAnswer, lambda answer: answer.status)


def wait_for_change(
    job_id: JobId, known: JobStatus | Iterable[JobStatus], seconds: float = WAIT_SECONDS
) -> RestCall[JobStatus]:
    """The status, as soon as it is not one of the known ones or the time has passed."""
    known = (known,) if isinstance(known, JobStatus) else known
    return RestCall(
        method="GET",
        path=_job_path(job_id, "/status"),
        query={"wait": f"{seconds:g}", "known": ",".join(known)},
        waits=seconds,
        read=lambda body: _decoded(body, JobStatusAnswer).status,
    )


def result(job_id: JobId) -> RestCall[JobExecutionResult | None]:
    """None while the job has not ended."""
    return _get(
        _job_path(job_id, "/execution-result"),
        ExecutionResultAnswer,
        lambda answer: answer.job_execution_result or None,
    )


def plan(job_id: JobId) -> RestCall[JobPlan]:
    return _get(_job_path(job_id, "/plan"), PlanAnswer, lambda answer: answer.plan)


def exceptions(job_id: JobId) -> RestCall[JobExceptionHistory]:
    return _get(
        _job_path(job_id, "/exceptions"), JobExceptions, lambda answer: answer.exception_history
    )


def attempt_log(
    job_id: JobId, attempt: AttemptId, stream: str, offset: int = 0
) -> RestCall[LogAnswer]:
    """A piece of the attempt's output, stdout or stderr; empty at its present end."""
    return RestCall(
        method="GET",
        path=_job_path(job_id, f"/attempts/{quote(attempt, safe='')}/log"),
        query={"stream": stream, "offset": str(offset)},
        read=lambda body: _decoded(body, LogAnswer),
    )


def rows(job_id: JobId, query: int | None = None, offset: int = 0) -> RestCall[RowsAnswer]:
    """A piece of the rows that a query of the job returned, by default the last one."""
    asked = {} if query is None else {"query": str(query)}
    return RestCall(
        method="GET",
        path=_job_path(job_id, "/rows"),
        query={**asked, "offset": str(offset)},
        read=lambda body: _decoded(body, RowsAnswer),
    )


def cancel(job_id: JobId) -> RestCall[None]:
    return _send("PATCH", _job_path(job_id), {"mode": "cancel"})


def quarantined() -> RestCall[list[QuarantinedJobAnswer]]:
    """Jobs that were accepted and cannot be loaded."""
    return _get("/quarantine", QuarantineAnswer, lambda answer: answer.jobs)


def retry_quarantined(job_id: JobId) -> RestCall[None]:
    """Load the job and start it; Conflict, with the reason, if that is still not possible."""
    return _send("POST", f"/quarantine/{_checked(job_id)}/retry")


def drop_quarantined(job_id: JobId) -> RestCall[None]:
    """Give up the job: record it as FAILED and delete its files."""
    return _send("DELETE", f"/quarantine/{_checked(job_id)}")


@dataclass(frozen=True, kw_only=True)
class EventFilter:
    """Which events of the log are wanted. Times are in milliseconds since 1970."""

    kinds: tuple[str, ...] = ()
    """Empty for all kinds."""
    job: JobId | None = None
    owner: str | None = None
    since: Millis | None = None
    until: Millis | None = None
    """Events before this time."""
    after: str | None = None
    """Events behind the one with this id."""


def events(
    wanted: EventFilter | None = None,
    *,
    limit: int = 100,
    oldest_first: bool = False,
    page: str | None = None,
) -> RestCall[EventsAnswer]:
    """A page of the event log. Give its `next` as `page` for the page behind it."""
    found = wanted or EventFilter()
    query = {
        "kind": ",".join(found.kinds) or None,
        "job": None if found.job is None else _checked(found.job),
        "owner": found.owner,
        "since": None if found.since is None else str(found.since),
        "until": None if found.until is None else str(found.until),
        "after": found.after,
        "page": page,
        "oldest-first": str(oldest_first).lower(),
        "limit": str(limit),
    }
    return RestCall(
        method="GET",
        path="/events/log",
        query={name: text for name, text in query.items() if text is not None},
        read=lambda body: _decoded(body, EventsAnswer),
    )


def audit(
    limit: int = 100, *, caller: str | None = None, object_: str | None = None
) -> RestCall[list[AuditEntry]]:
    """Changes and refusals that the master's machine has recorded, newest first."""
    query = {"limit": str(limit), "caller": caller, "object": object_}
    return RestCall(
        method="GET",
        path="/audit",
        query={name: text for name, text in query.items() if text is not None},
        read=lambda body: _decoded(body, AuditAnswer).entries,
    )


def heartbeat(job_id: JobId, seconds: float) -> RestCall[None]:
    """Keep an attached job alive: the cluster cancels it after `seconds` without a heartbeat."""
    path = _job_path(job_id, "/clientHeartbeat")
    return _send("PATCH", path, {"seconds": f"{seconds:g}"})


def begin_savepoint(
    job_id: JobId, directory: str | None = None, *, cancel: bool = False
) -> RestCall[str]:
    """Start a savepoint and read its trigger id. The cluster completes it without this client."""
    query = {"cancel-job": str(cancel).lower()}
    if directory is not None:
        query["target-directory"] = directory
    return _begin(_job_path(job_id, "/savepoints"), query)


def begin_stop(
    job_id: JobId, directory: str | None = None, *, limit_seconds: float | None = None
) -> RestCall[str]:
    """Start stopping the job with a savepoint, and read the trigger id.

    The cluster completes the operation without this client.
    """
    query = {} if directory is None else {"targetDirectory": directory}
    if limit_seconds is not None:
        query["limit-seconds"] = f"{limit_seconds:g}"
    return _begin(_job_path(job_id, "/stop"), query)


def savepoint_outcome(job_id: JobId, trigger_id: str) -> RestCall[SavepointOutcome]:
    path = _job_path(job_id, f"/savepoints/{trigger_id}")
    return RestCall(method="GET", path=path, read=_operation)


def begin_checkpoint(job_id: JobId) -> RestCall[str]:
    return _begin(_job_path(job_id, "/checkpoints"))


def checkpoint_outcome(job_id: JobId, trigger_id: str) -> RestCall[SavepointOutcome]:
    path = _job_path(job_id, f"/checkpoints/{trigger_id}")
    return RestCall(method="GET", path=path, read=_operation)


def savepoints(directory: str | None = None) -> RestCall[list[SavepointSummary]]:
    query = {} if directory is None else {"directory": directory}
    return RestCall(
        method="GET",
        path="/savepoints",
        query=query,
        read=lambda body: _decoded(body, Savepoints).savepoints,
    )


def retained_checkpoints() -> RestCall[list[SavepointSummary]]:
    """The last checkpoints of ended jobs that are kept, newest first."""
    return _get("/retained-checkpoints", Savepoints, lambda answer: answer.savepoints)


def show_savepoint(path: str) -> "RestCall[SavepointView]":
    """The savepoint's content; InvalidInput if the masters find none there."""
    # Imported on use: every command would wait for it, and few need it.
    from stoker.savepoints.manifest import SavepointView  # noqa: PLC0415

    return RestCall(
        method="GET",
        path="/savepoints/show",
        query={"path": path},
        read=lambda body: _decoded(body, SavepointView),
    )


def begin_disposal(path: str) -> RestCall[str]:
    return _begin("/savepoint-disposal", {"savepoint-path": path})


def disposal_outcome(trigger_id: str) -> RestCall[SavepointOutcome]:
    return RestCall(method="GET", path=f"/savepoint-disposal/{trigger_id}", read=_operation)


def _operation(body: bytes) -> SavepointOutcome:
    return outcome_of(_decoded(body, dict[str, Any]))


def begin_upgrade(
    job_id: JobId,
    graph: JobGraph,
    artifacts: Mapping[str, Path] | None = None,
    *,
    settings: ReplacementSettings | None = None,
) -> RestCall[str]:
    """Start an upgrade and read its trigger id. The cluster completes it without this client."""
    wanted = settings or ReplacementSettings()
    query = {"allowNonRestoredState": str(wanted.allow_non_restored_state).lower()}
    body = SubmissionBody(graph, artifacts or {}, new_boundary())
    return _begin(_job_path(job_id, "/upgrade"), query | _replacement_query(wanted), body)


def begin_rescale(
    job_id: JobId, partitions: int, *, settings: ReplacementSettings | None = None
) -> RestCall[str]:
    """Replace the job by itself, with its state repartitioned."""
    query = _replacement_query(settings or ReplacementSettings(window_seconds=0.0))
    return _begin(_job_path(job_id, "/rescale"), {"partitions": str(partitions)} | query)


def _replacement_query(wanted: ReplacementSettings) -> dict[str, str]:
    query = {"window-seconds": f"{wanted.window_seconds:g}"}
    return query if wanted.directory is None else query | {"target-directory": wanted.directory}


def replacement_state(
    job_id: JobId, trigger_id: str, known: ReplacementPhase | None, seconds: float
) -> RestCall[ReplacementState]:
    query = {"wait": f"{seconds:g}"} | ({} if known is None else {"known": known.value})
    return RestCall(
        method="GET",
        path=_job_path(job_id, f"/replacements/{trigger_id}"),
        query=query,
        waits=seconds,
        read=lambda body: _decoded(body, ReplacementAnswer).operation,
    )


def overview() -> RestCall[ClusterOverviewAnswer]:
    return RestCall(
        method="GET",
        path="/overview",
        query={"show": "leader"},
        read=lambda body: _decoded(body, ClusterOverviewAnswer),
    )


def task_executors() -> RestCall[list[TaskManager]]:
    return _get("/taskmanagers", TaskManagers, lambda answer: answer.taskmanagers)


def submit(graph: JobGraph, artifacts: Mapping[str, Path] | None = None) -> RestCall[JobSubmitted]:
    """`artifacts` are local files by their SHA-256."""
    body = SubmissionBody(graph, artifacts or {}, new_boundary())
    return RestCall(
        method="POST",
        path="/jobs",
        body=body,
        waits=body.length / STORED_BYTES_PER_SECOND,
        read=lambda answer: _decoded(answer, JobSubmitted),
    )


def shut_down() -> RestCall[None]:
    """Shut down the whole cluster for good. Returns when the decision is durable."""
    return _send("DELETE", "/cluster")


def queues() -> RestCall[list[QueueAnswer]]:
    return _get("/queues", QueuesAnswer, lambda answer: answer.queues)


def drain(resource_id: ResourceId, seconds: float | None = None) -> RestCall[None]:
    """Drain a task executor. After `seconds`, if given, its batch tasks restart elsewhere."""
    path = f"/taskmanagers/{quote(resource_id, safe='')}/drain"
    return _send("POST", path, {} if seconds is None else {"timeout": f"{seconds:g}"})


def _job_path(job_id: JobId, suffix: str = "") -> str:
    return f"/jobs/{_checked(job_id)}{suffix}"


def _checked(job_id: JobId) -> JobId:
    if not is_hex_id(job_id.lower()):
        raise InvalidInput(f"a job id is 32 hexadecimal digits, found {job_id!r}")
    return job_id


def _begin(
    path: str, query: Mapping[str, str] | None = None, body: SubmissionBody | None = None
) -> RestCall[str]:
    """Starts an operation, which is on record when the answer arrives. Reads its trigger id."""
    trigger_id = os.urandom(16).hex()
    return RestCall(
        method="POST",
        path=path,
        query={"triggerId": trigger_id, **(query or {})},
        body=body,
        waits=0.0 if body is None else body.length / STORED_BYTES_PER_SECOND,
        read=lambda _body: trigger_id,
    )


def _send(method: str, path: str, query: Mapping[str, str] | None = None) -> RestCall[None]:
    return RestCall(method=method, path=path, query=query or {}, read=lambda _body: None)


def _get(path: str, kind: type[S], pick: Callable[[S], T]) -> RestCall[T]:
    return RestCall(method="GET", path=path, read=lambda body: pick(_decoded(body, kind)))


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return decode_json(body, kind)
    except msgspec.DecodeError as error:
        raise RemoteError(
            f"the answer is not one of a Stoker master ({error}); check the URL and the versions"
        ) from error

"""Submitting jobs, and answers about them in the form of Flink's REST API."""

from typing import Any

import msgspec

from stoker.api.metrics import VertexMetrics
from stoker.api.operations import FailureCause
from stoker.api.shape import Answer, Camel, Dashed
from stoker.core.graph import JobType
from stoker.core.ids import JobId
from stoker.core.rows import Column
from stoker.core.states import ExecutionState, JobStatus

NOT_ENDED = -1
"""End time of a job that has not ended."""


class JobIdWithStatus(Answer, frozen=True, kw_only=True):
    id: JobId
    status: JobStatus


class JobIds(Answer, frozen=True, kw_only=True):
    """GET /jobs"""

    jobs: list[JobIdWithStatus]


class TaskCounts(Answer, frozen=True, kw_only=True):
    total: int = 0
    created: int = 0
    scheduled: int = 0
    deploying: int = 0
    initializing: int = 0
    running: int = 0
    finished: int = 0
    canceling: int = 0
    canceled: int = 0
    failed: int = 0
    reconciling: int = 0


class JobOverview(Dashed, frozen=True, kw_only=True):
    jid: JobId
    name: str
    job_type: JobType = msgspec.field(name="jobType")
    scheduler_type: str = msgspec.field(name="schedulerType", default="Default")
    start_time: int
    end_time: int
    duration: int
    state: JobStatus
    last_modification: int
    tasks: TaskCounts
    pending_operators: int = 0
    waits_for: str | msgspec.UnsetType = msgspec.UNSET
    """Absent for a job with a running task; else `a slot`, or `its turn` in its queue."""
    owner: str | msgspec.UnsetType = msgspec.UNSET
    """Absent unless the client asked for it: Flink's clients refuse unknown fields."""
    restarts: int | msgspec.UnsetType = msgspec.UNSET
    """How often tasks of the job were started again; with `owner`."""


class JobsOverview(Answer, frozen=True, kw_only=True):
    """GET /jobs/overview"""

    jobs: list[JobOverview]
    total: int | msgspec.UnsetType = msgspec.UNSET
    """Number of jobs that match; absent unless the client asked for a page or a filter."""


class JobStatusAnswer(Answer, frozen=True, kw_only=True):
    """GET /jobs/:id/status"""

    status: JobStatus


class JobVertex(Dashed, frozen=True, kw_only=True):
    id: str
    slot_sharing_group_id: str = msgspec.field(name="slotSharingGroupId")
    name: str
    max_parallelism: int = msgspec.field(name="maxParallelism")
    parallelism: int
    """Number of regions that contain the vertex; each of them is one task."""
    status: ExecutionState
    start_time: int
    end_time: int
    duration: int
    tasks: dict[ExecutionState, int]
    metrics: VertexMetrics


class PlanInput(Answer, frozen=True, kw_only=True):
    id: str
    num: int
    exchange: str
    ship_strategy: str


class PlanNode(Answer, frozen=True, kw_only=True):
    id: str
    operator: str = ""
    parallelism: int
    operator_strategy: str = ""
    description: str
    """HTML: special characters are escaped and lines end with a break tag."""
    optimizer_properties: dict[str, str] = {}
    inputs: list[PlanInput] | msgspec.UnsetType = msgspec.UNSET
    """Absent for a node without inputs."""


class JobPlan(Answer, frozen=True, kw_only=True):
    jid: JobId
    name: str
    type: JobType
    nodes: list[PlanNode]


class PlanAnswer(Answer, frozen=True, kw_only=True):
    """GET /jobs/:id/plan"""

    plan: JobPlan


class JobAnswer(Dashed, frozen=True, kw_only=True):
    """GET /jobs/:id"""

    jid: JobId
    application_id: JobId
    name: str
    is_stoppable: bool = msgspec.field(name="isStoppable")
    state: JobStatus
    job_type: JobType
    scheduler_type: str = msgspec.field(name="schedulerType", default="Default")
    start_time: int
    end_time: int
    duration: int
    max_parallelism: int = msgspec.field(name="maxParallelism", default=-1)
    now: int
    timestamps: dict[JobStatus, int]
    vertices: list[JobVertex]
    status_counts: dict[ExecutionState, int]
    plan: JobPlan
    pending_operators: int = 0


class ExecutionConfig(Dashed, frozen=True, kw_only=True):
    restart_strategy: str
    job_parallelism: int
    object_reuse_mode: bool = False
    user_config: dict[str, str]


class JobConfig(Dashed, frozen=True, kw_only=True):
    """GET /jobs/:id/config"""

    jid: JobId
    name: str
    execution_config: ExecutionConfig


class ExceptionEntry(Camel, frozen=True, kw_only=True):
    exception_name: str
    stacktrace: str
    timestamp: int
    failure_labels: dict[str, str]
    task_name: str | msgspec.UnsetType = msgspec.UNSET
    endpoint: str | msgspec.UnsetType = msgspec.UNSET
    task_manager_id: str | msgspec.UnsetType = msgspec.UNSET
    concurrent_exceptions: list["ExceptionEntry"] = []


class JobExceptionHistory(Answer, frozen=True, kw_only=True):
    entries: list[ExceptionEntry]
    truncated: bool


class JobExceptions(Camel, frozen=True, kw_only=True):
    """GET /jobs/:id/exceptions"""

    exception_history: JobExceptionHistory


class JobExecutionResult(Dashed, frozen=True, kw_only=True):
    id: JobId
    name: str
    application_status: str
    """SUCCEEDED, FAILED or CANCELED."""
    accumulator_results: dict[str, str] = {}
    net_runtime: int
    failure_cause: FailureCause | msgspec.UnsetType = msgspec.UNSET
    application_id: JobId
    start_time: int
    end_time: int


class ResultStatus(Answer, frozen=True, kw_only=True):
    id: str
    """IN_PROGRESS or COMPLETED."""


class ExecutionResultAnswer(Dashed, frozen=True, kw_only=True):
    """GET /jobs/:id/execution-result"""

    status: ResultStatus
    job_execution_result: JobExecutionResult | msgspec.UnsetType = msgspec.UNSET


GRAPH_PART = "graph"
"""Name of the multipart part with the job graph as JSON."""
ARTIFACT_PART = "artifact"
"""Name of each part with a file. Files are matched by hash, not by name."""
IDEMPOTENCY_KEY = "Idempotency-Key"


class JobSubmitted(Camel, frozen=True, kw_only=True):
    """POST /jobs"""

    job_url: str
    job_id: JobId
    repeated: bool
    """True when the same job was accepted before."""
    continues_from: str | None = None
    """The checkpoint of an ended job from which it starts, because it writes the same output."""


class RowsAnswer(Dashed, frozen=True, kw_only=True):
    """GET /jobs/:jobid/rows"""

    queries: int
    """Number of queries of the job whose rows are there."""
    query: int
    """Number of the query with these rows, from 1 on."""
    statement: str
    columns: list[Column]
    """Names and types; types are those of Spark's schemas in their JSON form."""
    rows: list[list[Any]]
    """The values of each row; those that JSON lacks are texts, as docs/queries.md says."""
    next_offset: int | None
    """Offset at which the next rows begin; null when there are no more."""
    total: int
    """Number of rows of the query that are kept."""
    truncated: str
    """Why the query had more rows than are kept, in words; empty if all are there."""


class LogAnswer(Dashed, frozen=True, kw_only=True):
    """GET /jobs/:jobid/attempts/:attempt/log"""

    data: bytes
    """Base64 in JSON: a program may write any bytes, and a piece may end within a character."""
    next_offset: int
    """Offset at which the next piece begins."""
    complete: bool
    """True when nothing follows this piece."""

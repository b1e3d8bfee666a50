"""Answers that only Flink's clients ask for.

Applications: every job is its own application, with the same id. Accumulators: what Spark counts of
rows and bytes. Data sets, back pressure and flame graphs: Spark has none, so these are empty.
"""

from typing import Any

import msgspec

from stoker.api.jobs import JobOverview
from stoker.api.shape import Answer, Camel, Dashed
from stoker.core.ids import JobId
from stoker.core.states import JobStatus

APPLICATION_STATES = (
    "CREATED",
    "RUNNING",
    "FAILING",
    "FAILED",
    "CANCELING",
    "CANCELED",
    "FINISHED",
)


class ApplicationOverview(Dashed, frozen=True, kw_only=True):
    id: JobId
    name: str
    start_time: int
    end_time: int
    duration: int
    status: str
    jobs: dict[JobStatus, int]


class Applications(Answer, frozen=True, kw_only=True):
    """GET /applications/overview"""

    applications: list[ApplicationOverview]


class ApplicationAnswer(Dashed, frozen=True, kw_only=True):
    """GET /applications/:id"""

    id: JobId
    name: str
    status: str
    start_time: int
    end_time: int
    duration: int
    timestamps: dict[str, int]
    jobs: list[JobOverview]


class ApplicationException(Camel, frozen=True, kw_only=True):
    exception_name: str
    stacktrace: str
    timestamp: int
    job_id: JobId


class ApplicationExceptionHistory(Answer, frozen=True, kw_only=True):
    entries: list[ApplicationException]


class ApplicationExceptions(Camel, frozen=True, kw_only=True):
    """GET /applications/:id/exceptions"""

    exception_history: ApplicationExceptionHistory


class DataSets(Answer, frozen=True, kw_only=True, rename={"data_sets": "dataSets"}):
    """GET /datasets"""

    data_sets: list[dict[str, Any]] = []


class Accumulator(Answer, frozen=True, kw_only=True):
    name: str
    type: str
    value: str


class JobAccumulators(Dashed, frozen=True, kw_only=True):
    """GET /jobs/:id/accumulators"""

    job_accumulators: list[Accumulator] = []
    user_task_accumulators: list[Accumulator] = []
    serialized_user_task_accumulators: dict[str, Any] = {}


class VertexAccumulators(Dashed, frozen=True, kw_only=True):
    """GET …/accumulators"""

    id: str
    user_accumulators: list[Accumulator]


class AttemptAccumulators(Dashed, frozen=True, kw_only=True):
    """GET …/attempts/:attempt/accumulators"""

    subtask: int
    attempt: int
    id: str
    user_accumulators: list[Accumulator]


class SubtaskAccumulators(Dashed, frozen=True, kw_only=True):
    subtask: int
    attempt: int
    endpoint: str
    user_accumulators: list[Accumulator]


class SubtasksAccumulators(Answer, frozen=True, kw_only=True):
    """GET …/subtasks/accumulators"""

    id: str
    parallelism: int
    subtasks: list[SubtaskAccumulators]


class BackPressure(Answer, frozen=True, kw_only=True):
    """GET …/backpressure: Spark pulls its input, so there is no back pressure to measure."""

    status: str = "deprecated"


class FlameGraph(Answer, frozen=True, kw_only=True):
    """GET …/flamegraph: Spark does not sample its operators."""

    end_timestamp: int = msgspec.field(name="endTimestamp", default=-3)
    """Flink's value while there is no sample."""


class ParallelismBounds(Answer, frozen=True, kw_only=True, rename="camel"):
    lower_bound: int
    upper_bound: int


class VertexRequirements(Answer, frozen=True, kw_only=True):
    parallelism: ParallelismBounds

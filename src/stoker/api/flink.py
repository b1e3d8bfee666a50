"""Answers about applications: every job is one of its own."""

from typing import Any

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

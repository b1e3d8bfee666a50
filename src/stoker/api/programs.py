"""Requests and answers about uploaded programs, which Flink's API calls jars."""

import msgspec

from stoker.api.shape import Answer, Camel
from stoker.core.ids import JobId


class ProgramEntry(Answer, frozen=True, kw_only=True):
    name: str
    description: str | None = None


class ProgramAnswer(Answer, frozen=True, kw_only=True):
    id: str
    name: str
    uploaded: int
    """Milliseconds since 1970."""
    entry: list[ProgramEntry]


class ProgramsAnswer(Answer, frozen=True, kw_only=True):
    """GET /jars"""

    address: str
    files: list[ProgramAnswer]


class ProgramUploaded(Answer, frozen=True, kw_only=True):
    """POST /jars/upload"""

    filename: str
    """Its last path segment is the id of the program."""
    status: str = "success"


class ProgramRun(Camel, frozen=True, kw_only=True):
    """Body of POST /jars/:id/run, /run-application and /plan; the query may override fields."""

    entry_class: str | None = None
    program_args_list: list[str] | None = None
    program_args: str | None = None
    parallelism: int | None = None
    job_id: str | None = None
    application_id: str | None = None
    savepoint_path: str | None = None
    allow_non_restored_state: bool | None = None
    claim_mode: str | None = None
    restore_mode: str | None = None
    flink_configuration: dict[str, str] | None = None
    """Settings of the Spark session, under Flink's name."""
    queue: str | None = None
    priority: int | None = None
    slots: int | None = None
    resources: dict[str, int | float | str] | None = None
    """`cores` and `memory` that each slot of the job must have."""


class ProgramStarted(Answer, frozen=True, kw_only=True):
    """POST /jars/:id/run"""

    jobid: JobId
    application_id: JobId = msgspec.field(name="applicationId")


class ApplicationStarted(Answer, frozen=True, kw_only=True):
    """POST /jars/:id/run-application"""

    applicationid: JobId

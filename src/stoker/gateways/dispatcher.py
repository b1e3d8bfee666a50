"""What the REST endpoint asks of the leading dispatcher."""

from typing import Protocol

from stoker.core.graph import JobGraph, Value
from stoker.core.ids import JobId
from stoker.core.results import JobDetails, JobResult, JobSummary, Millis
from stoker.core.states import JobStatus
from stoker.gateways.resourcemanager import ResourceOverview, TaskExecutorDetails

DISPATCHER = "dispatcher"


class Submitted(Value):
    job_id: JobId
    repeated: bool = False
    """The same job had been accepted before; this answer repeats that one."""


class ClusterOverview(Value):
    resources: ResourceOverview
    jobs_running: int
    """All that have not ended."""
    jobs_finished: int
    jobs_cancelled: int
    jobs_failed: int


class QuarantinedJob(Value):
    """An accepted job whose records or content cannot be loaded. Its bytes are kept."""

    job_id: JobId
    reason: str
    since: Millis
    """When the dispatcher that leads now found it so."""
    pointer: str | None = None
    """Where its content is or should be in the storage, if its record can be read."""
    cancel_wanted: bool = False


class DispatcherGateway(Protocol):
    async def submit_job(self, graph: JobGraph) -> Submitted:
        """Returns when the job is durable. InvalidJobGraph, DuplicateJob, StorageUnavailable."""
        ...

    async def list_jobs(self) -> list[JobSummary]:
        """Live and ended jobs, each once, newest first."""
        ...

    async def job_status(self, job_id: JobId) -> JobStatus: ...

    async def job_details(self, job_id: JobId) -> JobDetails: ...

    async def job_result(self, job_id: JobId) -> JobResult | None:
        """None while the job has not ended; JobNotFound for an unknown one."""
        ...

    async def wait_for_change(self, job_id: JobId, known: JobStatus, seconds: float) -> JobStatus:
        """The status, as soon as it differs from the known one or the time is over."""
        ...

    async def cancel_job(self, job_id: JobId) -> None:
        """Durable when this returns; again is harmless; JobAlreadyEnded when it ended otherwise.

        Also for a job in quarantine, which is cancelled as soon as it can be loaded.
        """
        ...

    async def quarantined(self) -> list[QuarantinedJob]:
        """Those that cannot be loaded; every other question about one raises JobQuarantined."""
        ...

    async def retry_quarantined(self, job_id: JobId) -> None:
        """It could be loaded and was started; JobQuarantined, with the reason, when not.

        Again is harmless.
        """
        ...

    async def drop_quarantined(self, job_id: JobId) -> None:
        """It is recorded as FAILED, never runs again, and is cleaned up like any ended job.

        Again is harmless.
        """
        ...

    async def cluster_overview(self) -> ClusterOverview: ...

    async def task_executors(self) -> list[TaskExecutorDetails]: ...

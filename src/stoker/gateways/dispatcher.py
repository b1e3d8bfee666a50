"""What the REST endpoint asks of the leading dispatcher."""

from typing import Protocol

from stoker.core.checkpoints import SavepointRequest, SavepointSummary, SavepointTaken
from stoker.core.graph import (
    JobGraph,
)
from stoker.core.ids import AttemptId, JobId, ResourceId, SessionId
from stoker.core.replacements import Replacement, ReplacementPhase, ReplacementRequest
from stoker.core.results import (
    JobDetails,
    JobResult,
    JobSummary,
)
from stoker.core.states import ApplicationStatus, JobStatus
from stoker.core.values import Millis, Value
from stoker.gateways.attempt_logs import LogPiece, LogStream
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


class QueueOverview(Value):
    name: str
    running: int
    """Jobs that had their turn and have not ended."""
    slots: int
    """The most that these may use together."""
    max_running: int | None = None
    max_slots: int | None = None
    waiting: tuple[JobId, ...] = ()
    """In the order of their turn, as it is now."""


class QuarantinedJob(Value):
    """An accepted job whose records or content cannot be loaded. Its bytes are kept."""

    job_id: JobId
    reason: str
    since: Millis
    """When the dispatcher that leads now found it so."""
    pointer: str | None = None
    """Where its content is or should be in the storage, if its record can be read."""
    cancel_wanted: bool = False


class JobsSince(Value):
    """What became of the list of jobs: how those that live have changed, and the ended ones."""

    leader: SessionId
    """Whose counting `revision` is; another leader begins anew."""
    revision: int
    live: tuple[JobSummary, ...] = ()
    """Those that changed since the live revision that was asked for; all if `live_whole`."""
    ended: tuple[JobSummary, ...] = ()
    """Those that were added since the revision that was asked for; all of them if `whole`."""
    removed: tuple[JobId, ...] = ()
    whole: bool = False
    live_revision: int = 0
    live_gone: tuple[JobId, ...] = ()
    """Those that live no more: they have ended, or were put aside."""
    live_whole: bool = True


class SavepointStatus(Value):
    """Of an operation that was triggered."""

    done: bool
    taken: SavepointTaken | None = None
    error: str = ""
    """Type name of the error, when it is done and there is no savepoint."""
    message: str = ""


class DispatcherGateway(Protocol):
    async def submit_job(self, graph: JobGraph) -> Submitted:
        """Returns when the job is durable. InvalidJobGraph, DuplicateJob, StorageUnavailable."""
        ...

    async def jobs_since(
        self, leader: SessionId | None, revision: int, live_revision: int = -1
    ) -> JobsSince:
        """As `list_jobs`, told as the difference to what the caller knows already."""
        ...

    async def job_status(self, job_id: JobId) -> JobStatus: ...

    async def job_details(self, job_id: JobId) -> JobDetails: ...

    async def read_attempt_log(
        self, job_id: JobId, attempt: AttemptId, stream: LogStream, offset: int
    ) -> LogPiece:
        """While the attempt runs and after its end; NotFound for an unknown attempt."""
        ...

    async def job_result(self, job_id: JobId) -> JobResult | None:
        """None while the job has not ended; JobNotFound for an unknown one."""
        ...

    async def wait_for_change(
        self, job_id: JobId, known: tuple[JobStatus, ...], seconds: float
    ) -> JobStatus:
        """The status, as soon as it is none of the known ones or the time is over."""
        ...

    async def cancel_job(self, job_id: JobId) -> None:
        """Durable when this returns; again is harmless; JobAlreadyEnded when it ended otherwise.

        Also for a job in quarantine, which is cancelled as soon as it can be loaded.
        """
        ...

    async def heartbeat_from_client(self, job_id: JobId, seconds: float) -> None:
        """The client of an attached job is there, and will be missed after so many seconds."""
        ...

    async def trigger_savepoint(
        self, job_id: JobId, trigger_id: str, request: SavepointRequest
    ) -> None:
        """Begins; the same id again is the same operation. JobNotFound, CannotTakeSavepoint."""
        ...

    async def savepoint_status(
        self, job_id: JobId, trigger_id: str, seconds: float
    ) -> SavepointStatus:
        """As soon as it is done, or the time is over; NotFound for an unknown id."""
        ...

    async def savepoints(self, directory: str | None) -> list[SavepointSummary]:
        """Those of a directory, by default the configured one; newest first."""
        ...

    async def dispose_savepoint(self, path: str) -> None:
        """It is gone. UnusableSavepoint when there is none, InvalidInput for a job's own files."""
        ...

    async def trigger_replacement(self, request: ReplacementRequest) -> None:
        """On record when this returns; the same id again is the same operation.

        JobNotFound, CannotTakeSavepoint, InvalidInput: nothing was stopped.
        """
        ...

    async def replacement_status(
        self, job_id: JobId, trigger_id: str, known: ReplacementPhase | None, seconds: float
    ) -> Replacement:
        """When it is over or in another phase than the known one, or the time is over.

        NotFound for an unknown id.
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

    async def queues(self) -> list[QueueOverview]: ...

    async def shut_down_cluster(self, status: ApplicationStatus) -> None:
        """End it for good: durable when this returns; again is harmless.

        Nothing new is accepted from here on. Jobs are cancelled, their end and clean-up waited for;
        then all masters and task executors end. Results of ended jobs stay on record.
        """
        ...

    async def drain_task_executor(self, resource_id: ResourceId, seconds: float | None) -> None:
        """As the resource manager's call of this name."""
        ...

"""The calls of the leading dispatcher, which the REST servers of all masters use.

A call may have to be repeated when its answer is lost, perhaps at the next leader. So a call that
changes something can be repeated without harm, and is durable when it returns. (A triggered
savepoint is the exception: only the leader that began it knows of it.)
"""

from typing import Protocol

from stoker.core.checkpoints import SavepointRequest, SavepointSummary, SavepointTaken
from stoker.core.graph import JobGraph
from stoker.core.ids import AttemptId, JobId, ResourceId, SessionId
from stoker.core.replacements import Replacement, ReplacementPhase, ReplacementRequest
from stoker.core.results import JobDetails, JobResult, JobSummary
from stoker.core.rows import QueryResult
from stoker.core.states import ApplicationStatus, JobStatus
from stoker.core.values import Millis, Value
from stoker.events.query import EventPage, EventQuery
from stoker.gateways.attempt_logs import LogPiece, LogStream
from stoker.gateways.resourcemanager import ResourceOverview, TaskExecutorDetails
from stoker.security.submission_limits import NO_LIMITS, SubmissionLimits

DISPATCHER = "dispatcher"


class CallerRights(Value):
    """What the caller of an operation may do, as far as only the leader can check it."""

    name: str = ""
    """Name of its token, or of its certificate."""
    credential: str = "token"
    """What names it in messages: `token` or `certificate`."""
    limits: SubmissionLimits = NO_LIMITS
    only_own: bool = False
    """Whether it may use only the savepoints of its own jobs."""


class Submitted(Value):
    job_id: JobId
    repeated: bool = False
    """The same job was accepted before, and this answer repeats the earlier one."""
    continues_from: str | None = None
    """The checkpoint of an ended job from which it starts, because it writes the same output."""


class ClusterOverview(Value):
    resources: ResourceOverview
    jobs_running: int
    """Number of jobs that have not ended, including those that wait."""
    jobs_finished: int
    jobs_cancelled: int
    jobs_failed: int


class RowsPiece(Value):
    """A part of the rows that a query returned."""

    queries: int
    """Number of queries whose rows are there."""
    query: int
    """Number of this query, from 1 on."""
    result: QueryResult
    rows: bytes = b"[]"
    """The rows from the offset on, a JSON array; empty at the end."""


class QueueOverview(Value):
    name: str
    running: int
    """Number of admitted jobs that have not ended."""
    slots: int
    """Largest number of slots that the admitted jobs may use together."""
    slots_in_use: int = 0
    waiting_for_slots: int = 0
    """Number of admitted jobs of which no task has a slot."""
    max_running: int | None = None
    max_slots: int | None = None
    waiting: tuple[JobId, ...] = ()
    """Waiting jobs, in the present order of their turn."""


class QuarantinedJob(Value):
    """An accepted job whose records or content cannot be loaded. Its bytes are kept."""

    job_id: JobId
    reason: str
    since: Millis
    """When the present leader found that the job cannot be loaded."""
    pointer: str | None = None
    """Path of the job's content in the storage, if the record of the job can be read."""
    cancel_wanted: bool = False
    owner: str = ""
    """Empty if the record of the job cannot be read."""


class JobsSince(Value):
    """The job list as a difference to the revisions that the caller knows."""

    leader: SessionId
    """The leader that counts the revisions. Revisions of another leader mean nothing to it."""
    revision: int
    live: tuple[JobSummary, ...] = ()
    """Live jobs that changed since the caller's live revision; all of them if `live_whole`."""
    ended: tuple[JobSummary, ...] = ()
    """Ended jobs that were added since the caller's revision; all of them if `whole`."""
    removed: tuple[JobId, ...] = ()
    """Ended jobs that were forgotten since the caller's revision."""
    whole: bool = False
    live_revision: int = 0
    live_gone: tuple[JobId, ...] = ()
    """Jobs that are no longer live: they ended, or went to quarantine."""
    live_whole: bool = True


class SavepointStatus(Value):
    """The state of a triggered savepoint."""

    done: bool
    taken: SavepointTaken | None = None
    error: str = ""
    """Type name of the error, when the operation is done without a savepoint."""
    message: str = ""


class DispatcherGateway(Protocol):
    async def submit_job(
        self, graph: JobGraph, owner: str = "", rights: CallerRights | None = None
    ) -> Submitted:
        """Returns when the job is durable. InvalidJobGraph, DuplicateJob, StorageUnavailable.

        The idempotency key in the graph is a key of this owner. Forbidden and LimitReached for a
        job that is outside of the caller's rights; without `rights` everything is allowed.
        """
        ...

    async def jobs_since(
        self, leader: SessionId | None, revision: int, live_revision: int = -1
    ) -> JobsSince:
        """Live and ended jobs that have changed since the revisions which the caller knows.

        A job that is just ending may be in both lists; the live entry counts.
        """
        ...

    async def job_status(self, job_id: JobId) -> JobStatus: ...

    async def job_owner(self, job_id: JobId) -> str:
        """Who submitted the job; empty if that is not known. JobNotFound for an unknown job."""
        ...

    async def job_details(self, job_id: JobId) -> JobDetails: ...

    async def read_attempt_log(
        self, job_id: JobId, attempt: AttemptId, stream: LogStream, offset: int
    ) -> LogPiece:
        """Works while the attempt runs and after its end. NotFound for an unknown attempt."""
        ...

    async def read_events(self, query: EventQuery) -> EventPage:
        """Events of the log that are on record; those of the last moment may be missing yet."""
        ...

    async def read_rows(self, job_id: JobId, query: int | None, offset: int) -> RowsPiece:
        """Rows that a query of a SQL script returned, by its number; by default the last query.

        NotFound if the job has no such query, or returned nothing yet.
        """
        ...

    async def job_result(self, job_id: JobId) -> JobResult | None:
        """None while the job has not ended; JobNotFound for an unknown one."""
        ...

    async def wait_for_change(
        self, job_id: JobId, known: tuple[JobStatus, ...], seconds: float
    ) -> JobStatus:
        """Returns the status once it is not a known one, or when the time is over."""
        ...

    async def cancel_job(self, job_id: JobId) -> None:
        """The cancellation is durable when this returns; a repetition is harmless.

        JobAlreadyEnded when the job ended in another way. A job in quarantine is cancelled as soon
        as it can be loaded.
        """
        ...

    async def heartbeat_from_client(self, job_id: JobId, seconds: float) -> None:
        """The client of an attached job is alive; it counts as gone after `seconds` of silence."""
        ...

    async def trigger_savepoint(
        self, job_id: JobId, trigger_id: str, request: SavepointRequest
    ) -> None:
        """Begin a savepoint; a repetition with the same trigger id is harmless.

        JobNotFound, CannotTakeSavepoint.
        """
        ...

    async def savepoint_status(
        self, job_id: JobId, trigger_id: str, seconds: float
    ) -> SavepointStatus:
        """Returns when the savepoint is done or the time is over. NotFound for an unknown id."""
        ...

    async def savepoints(self, directory: str | None) -> list[SavepointSummary]:
        """The savepoints in a directory, by default the configured one; newest first."""
        ...

    async def retained_checkpoints(self) -> list[SavepointSummary]:
        """The retained checkpoints of ended jobs, newest first."""
        ...

    async def dispose_savepoint(self, path: str, rights: CallerRights | None = None) -> None:
        """Delete a savepoint. UnusableSavepoint when the path has none.

        InvalidInput for the files of a job of this cluster, Forbidden for the savepoint of another
        owner.
        """
        ...

    async def trigger_replacement(
        self, request: ReplacementRequest, rights: CallerRights | None = None
    ) -> None:
        """The replacement is on record when this returns; a repetition of the request is harmless.

        JobNotFound, CannotTakeSavepoint, Forbidden and InvalidInput mean that nothing was stopped.
        """
        ...

    async def replacement_status(
        self, job_id: JobId, trigger_id: str, known: ReplacementPhase | None, seconds: float
    ) -> Replacement:
        """Returns when the replacement is over or in another phase, or when the time is over.

        NotFound for an unknown id.
        """
        ...

    async def quarantined(self) -> list[QuarantinedJob]:
        """The jobs that cannot be loaded. Other calls about them raise JobQuarantined."""
        ...

    async def retry_quarantined(self, job_id: JobId) -> None:
        """Load and start the job. JobQuarantined, with the reason, when that fails.

        A repetition is harmless.
        """
        ...

    async def drop_quarantined(self, job_id: JobId) -> None:
        """Record the job as FAILED. It never runs again and is cleaned up like any ended job.

        A repetition is harmless.
        """
        ...

    async def cluster_overview(self) -> ClusterOverview: ...

    async def task_executors(self) -> list[TaskExecutorDetails]: ...

    async def queues(self) -> list[QueueOverview]: ...

    async def shut_down_cluster(self, status: ApplicationStatus) -> None:
        """End the cluster for good. Durable when this returns; a repetition is harmless.

        The cluster accepts nothing new from here on. It cancels all jobs and waits for their end
        and clean-up; then all masters and task executors end. Results of ended jobs stay on record.
        """
        ...

    async def drain_task_executor(self, resource_id: ResourceId, seconds: float | None) -> None:
        """Forwards to the call of the same name of the resource manager."""
        ...

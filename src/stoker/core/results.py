"""Records about jobs: failures, outcomes of attempts, progress, details, results."""

from datetime import UTC, datetime

from stoker.core.checkpoints import BatchFigures, Checkpoints
from stoker.core.graph import JobType
from stoker.core.ids import AttemptId, InstanceId, JobId, RegionId, ResourceId
from stoker.core.states import ExecutionState, JobStatus
from stoker.core.values import Millis, Value

COLLATERAL = "collateral"
"""Value of the label `cause`: the failure is collateral damage of another job, so the restart is
free."""


class Failure(Value):
    """Why something failed, for people to read."""

    error: str
    """Type name of the error, for example `AnalysisException` or `TaskExecutorLost`."""
    message: str
    stack_trace: str = ""
    """The frames of the user's code come first, if there are any."""
    retriable: bool = True
    """False when a retry cannot help (missing column, code that cannot load)."""
    labels: dict[str, str] = {}
    place: str = ""
    """Where in the user's job: `transform 'adults', jobs/people.py line 9`. Empty if unknown."""


class FailureRecord(Value):
    """An entry of a job's exception history."""

    failure: Failure
    at: Millis
    region: RegionId | None = None
    attempt: AttemptId | None = None
    attempt_number: int = 0
    task_executor: ResourceId | None = None
    concurrent: tuple["FailureRecord", ...] = ()
    """Further failures that happened while the job was reacting to this one."""


class ProgressPart(Value):
    """A Spark job or a streaming query that a program has started."""

    id: str
    name: str
    kind: str
    """spark-job or streaming-query"""
    state: str
    """Spark's word: RUNNING, SUCCEEDED, FAILED or UNKNOWN."""
    tasks_total: int = 0
    tasks_done: int = 0
    batch_id: int | None = None
    rows_per_second: float | None = None


class Progress(Value):
    """Progress of a region; all counts are those of the current attempt."""

    tasks_total: int = 0
    tasks_done: int = 0
    rows_read: int | None = None
    rows_written: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    batch_id: int | None = None
    """Streaming: the last committed batch."""
    batches: int = 0
    rows_per_second: float | None = None
    query_id: str | None = None
    run_id: str | None = None
    spark_ui: str | None = None
    """URL of Spark's own page about the attempt."""
    parts: tuple[ProgressPart, ...] = ()
    """Programs: the newest Spark jobs and queries."""
    recent_batches: tuple[BatchFigures, ...] = ()
    """Streaming: the last few committed batches, oldest first."""


def watermark_of(progress: Progress) -> Millis | None:
    """The newest watermark; a batch without rows may have none, so earlier batches count too."""
    for batch in reversed(progress.recent_batches):
        if (found := _millis(batch.watermark)) is not None:
            return found
    return None


def _millis(text: str | None) -> Millis | None:
    try:
        moment = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    if moment is None:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


class AttemptOutcome(Value):
    """How an attempt ended. It is written to the storage, once, before anybody hears of it."""

    job_id: JobId
    region: RegionId
    attempt: AttemptId
    state: ExecutionState
    """FINISHED, FAILED or CANCELED."""
    at: Millis
    failure: Failure | None = None
    progress: Progress = Progress()
    number: int | None = None
    """Number of the attempt within its region; None unless a task executor records the outcome."""
    task_executor: ResourceId | None = None


class AttemptDetails(Value):
    attempt: AttemptId
    number: int
    state: ExecutionState
    task_executor: ResourceId | None = None
    instance: InstanceId | None = None
    timestamps: dict[ExecutionState, Millis] = {}
    progress: Progress = Progress()


class RegionDetails(Value):
    id: RegionId
    vertices: tuple[str, ...]
    streaming: bool
    current: AttemptDetails
    former: tuple[AttemptDetails, ...] = ()


class PlanVertex(Value):
    """A vertex as it is shown: with the names of user functions, without their code."""

    name: str
    kind: str
    """source, transform, sink, script or program"""
    inputs: tuple[str, ...] = ()
    description: str = ""


class JobDetails(Value):
    """Everything that is shown about a job, at one moment."""

    job_id: JobId
    name: str
    job_type: JobType
    status: JobStatus
    timestamps: dict[JobStatus, Millis]
    start: Millis
    end: Millis | None = None
    regions: tuple[RegionDetails, ...] = ()
    failures: tuple[FailureRecord, ...] = ()
    """Newest first."""
    waiting: str | None = None
    """Why the job waits, in words."""
    plan: tuple[PlanVertex, ...] = ()
    configuration: dict[str, str] = {}
    parameters: dict[str, str] = {}
    engine: str = ""
    """connect or classic, and the reason if it was chosen automatically."""
    checkpoints: Checkpoints = Checkpoints()
    restarts: int = 0
    """Restarts after failures, under the present leader."""
    owner: str = ""
    """Who submitted the job: the name of a token, or a user of the machine."""

    def __repr__(self) -> str:
        # Short, because it is what a notebook prints after `job.result()`.
        return f"<details of job {self.name} ({self.job_id[:12]}): {self.status}>"


class JobSummary(Value):
    job_id: JobId
    name: str
    job_type: JobType
    status: JobStatus
    start: Millis
    end: Millis | None = None
    last_change: Millis = 0
    tasks: dict[ExecutionState, int] = {}
    waits_for: str = ""
    """`its turn` in its queue, or `a slot` while none of its tasks has one; else empty."""
    owner: str = ""
    restarts: int = 0
    """How often tasks of the job were started again, for whatever reason."""


class JobResult(Value):
    """The recorded end of a job. A job with a result never runs again."""

    job_id: JobId
    name: str
    job_type: JobType
    status: JobStatus
    start: Millis
    end: Millis
    failure: Failure | None = None
    tasks: dict[ExecutionState, int] = {}
    """Number of regions by the state in which they ended."""
    owner: str = ""
    restarts: int = 0

    @property
    def net_runtime(self) -> int:
        return max(0, self.end - self.start)


def summary_of(details: JobDetails) -> JobSummary:
    tasks: dict[ExecutionState, int] = {}
    for region in details.regions:
        tasks[region.current.state] = tasks.get(region.current.state, 0) + 1
    return JobSummary(
        job_id=details.job_id,
        name=details.name,
        job_type=details.job_type,
        status=details.status,
        start=details.start,
        end=details.end,
        last_change=max(details.timestamps.values(), default=details.start),
        tasks=tasks,
        waits_for=_wait_of(details, tasks),
        owner=details.owner,
        restarts=sum(region.current.number for region in details.regions),
    )


_WITH_SLOT = (
    ExecutionState.DEPLOYING,
    ExecutionState.INITIALIZING,
    ExecutionState.RUNNING,
    ExecutionState.CANCELING,
    ExecutionState.RECONCILING,
)


def slots_held(summary: JobSummary) -> int:
    """Each task that has been given to a task executor takes one slot there."""
    return sum(summary.tasks.get(state, 0) for state in _WITH_SLOT)


def _wait_of(details: JobDetails, tasks: dict[ExecutionState, int]) -> str:
    if details.status.globally_terminal:
        return ""
    if not details.regions:
        return "its turn" if details.waiting else ""
    has_slot = any(tasks.get(state) for state in _WITH_SLOT)
    return "a slot" if tasks.get(ExecutionState.SCHEDULED) and not has_slot else ""

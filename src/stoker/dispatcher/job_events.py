"""What the event log learns of jobs: each change that a user would ask about later.

Job masters tell of every change, most of which move no job to another state. So a change costs one
comparison here, and only a move to another state makes an event.

A job that an earlier leader ran has no start of its own. It is taken over: its attempts continue or
are started again, and the leader has recovered when that is known of every such job.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from stoker.core.checkpoints import SavepointRequest, SavepointTaken
from stoker.core.headlines import headline_of
from stoker.core.ids import AttemptId, JobId, RegionId
from stoker.core.replacements import Replacement, ReplacementPhase
from stoker.core.results import JobDetails, JobResult
from stoker.core.states import JobStatus
from stoker.core.values import Millis
from stoker.events.event import EventKind, Subject
from stoker.events.intake import EventRecorder
from stoker.events.missing import END_KINDS, JobFacts
from stoker.gateways.job import JobToRun, RunningJob
from stoker.security.redaction import redact_text, secret_values_of, without_credentials

_BEFORE_START = (
    JobStatus.INITIALIZING,
    JobStatus.CREATED,
    JobStatus.RECONCILING,
)


def subject_of(to_run: JobToRun) -> Subject:
    return Subject(to_run.graph.job_id, to_run.graph.name, to_run.owner)


def facts_of_live(to_run: JobToRun) -> JobFacts:
    return JobFacts(about=subject_of(to_run), submitted_at=to_run.submitted_at)


def facts_of_ended(result: JobResult) -> JobFacts:
    return JobFacts(
        about=Subject(result.job_id, result.name, result.owner),
        submitted_at=result.start,
        status=result.status,
        ended_at=result.end,
    )


@dataclass(kw_only=True)
class _Progress:
    """What was recorded of a live job so far."""

    status: JobStatus = JobStatus.INITIALIZING
    has_started: bool = False
    attempts: dict[RegionId, AttemptId] | None = None
    """The attempts of the previous leader, while it is not known what became of them."""


@dataclass(kw_only=True)
class _TakeOver:
    """The jobs that ran under an earlier leader."""

    open: set[JobId] = field(default_factory=set)
    """Those of which it is not known what became of their attempts."""
    jobs: int = 0
    adopted: int = 0
    restarted: int = 0


class JobEvents:
    def __init__(self, record: EventRecorder) -> None:
        self._record = record
        self._known: dict[JobId, _Progress] = {}
        self._take_over = _TakeOver()

    def recovering(self, jobs: set[JobId]) -> None:
        """The jobs whose attempts this leader finds on record."""
        self._take_over = _TakeOver(open=set(jobs), jobs=len(jobs))
        self._report_recovery()

    def submitted(self, to_run: JobToRun) -> None:
        graph = to_run.graph
        self._record(
            EventKind.JOB_SUBMITTED,
            f"submitted as a {graph.job_type.value.lower()} job, for queue {graph.queue}",
            about=subject_of(to_run),
            at=to_run.submitted_at,
            data={
                "type": graph.job_type.value,
                "queue": graph.queue,
                "priority": graph.priority,
            },
        )

    def queued(self, to_run: JobToRun) -> None:
        queue = to_run.graph.queue
        self._record(
            EventKind.JOB_QUEUED,
            f"waits for its turn in queue {queue}",
            about=subject_of(to_run),
            data={"queue": queue},
        )

    def changed(self, to_run: JobToRun, running: RunningJob) -> None:
        """Something about the job has changed, maybe its state."""
        status = running.status
        known = self._known.setdefault(to_run.graph.job_id, _Progress())
        if status is known.status:
            return
        known.status = status
        if status is JobStatus.RECONCILING and not known.has_started:
            known.attempts = dict(_attempts_of(running.details()))
        elif status is JobStatus.RUNNING and not known.has_started:
            self._started(to_run, running, known)
        elif status is JobStatus.RESTARTING:
            self._take_over_if_open(to_run, running, known)
            self._restarting(to_run, running.details())

    def _started(self, to_run: JobToRun, running: RunningJob, known: _Progress) -> None:
        if known.attempts is None and to_run.was_admitted:
            # All its attempts had ended before this leader looked.
            known.attempts = {}
        if known.attempts is not None:
            self._take_over_if_open(to_run, running, known)
        else:
            known.has_started = True
            self._record(EventKind.JOB_STARTED, "started", about=subject_of(to_run))
        self._close(to_run.graph.job_id)

    def _take_over_if_open(self, to_run: JobToRun, running: RunningJob, known: _Progress) -> None:
        before, known.attempts, known.has_started = known.attempts, None, True
        if before is None:
            return
        now = dict(_attempts_of(running.details()))
        adopted = sum(now.get(region) == attempt for region, attempt in before.items())
        self._take_over.adopted += adopted
        self._take_over.restarted += len(before) - adopted
        self._record(
            EventKind.JOB_TAKEN_OVER,
            "taken over from the previous leader; attempts that continue: "
            f"{adopted} of {len(before)}",
            about=subject_of(to_run),
            data={"adopted": adopted, "restarted": len(before) - adopted},
        )
        self._close(to_run.graph.job_id)

    def _restarting(self, to_run: JobToRun, details: JobDetails) -> None:
        failure = details.failures[0] if details.failures else None
        self._record(
            EventKind.JOB_RESTARTING,
            "restarts" + ("" if failure is None else f" after {self._reason(to_run, details)}"),
            about=subject_of(to_run),
            data={
                "restarts": details.restarts,
                "error": None if failure is None else failure.failure.error,
                "region": None if failure is None else failure.region,
            },
        )

    def _reason(self, to_run: JobToRun, details: JobDetails) -> str:
        text = headline_of(details.failures[0].failure)
        return redact_text(text, secret_values_of(to_run.graph))

    def ended(self, result: JobResult, to_run: JobToRun | None) -> None:
        """The end is on record."""
        job_id = result.job_id
        reason = ""
        if result.failure is not None and result.status is JobStatus.FAILED:
            values = [] if to_run is None else secret_values_of(to_run.graph)
            reason = f": {redact_text(headline_of(result.failure), values)}"
        self._record(
            END_KINDS[result.status],
            f"{_END_TEXTS[result.status]} after {_seconds(result.net_runtime)}{reason}",
            about=Subject(job_id, result.name, result.owner),
            data={
                "seconds": result.net_runtime / 1000,
                "error": None if result.failure is None else result.failure.error,
            },
        )
        self._known.pop(job_id, None)
        self._close(job_id)

    def quarantined(self, job_id: JobId, reason: str, *, name: str = "", owner: str = "") -> None:
        self._record(
            EventKind.JOB_QUARANTINED,
            f"goes to quarantine: {reason}",
            about=Subject(job_id, name, owner),
        )
        self._known.pop(job_id, None)
        self._close(job_id)

    def released(self, to_run: JobToRun) -> None:
        self._record(
            EventKind.JOB_RELEASED,
            "leaves quarantine: it can be loaded again",
            about=subject_of(to_run),
        )

    def savepoint_begun(self, to_run: JobToRun, request: SavepointRequest) -> None:
        purpose = " to stop the job" if request.stop else " to cancel the job"
        self._record(
            EventKind.SAVEPOINT_BEGUN,
            "a savepoint begins" + (purpose if request.stop or request.cancel else ""),
            about=subject_of(to_run),
            data={"stop": request.stop, "cancel": request.cancel},
        )

    def savepoint_completed(self, to_run: JobToRun, taken: SavepointTaken) -> None:
        path = redact_text(taken.path, secret_values_of(to_run.graph))
        self._record(
            EventKind.SAVEPOINT_COMPLETED,
            f"savepoint {path} is complete",
            about=subject_of(to_run),
            data={"path": path, "bytes": taken.size_bytes, "files": taken.files},
        )

    def savepoint_failed(self, to_run: JobToRun, reason: str) -> None:
        self._record(
            EventKind.SAVEPOINT_FAILED,
            f"a savepoint failed: {redact_text(reason, secret_values_of(to_run.graph))}",
            about=subject_of(to_run),
        )

    def replaced(self, plan: Replacement, name: str) -> None:
        """The replacement of a job has reached another phase, which is on record."""
        reason = without_credentials(plan.reason)
        self._record(
            EventKind(plan.kind.value),
            f"{plan.kind}: {_PHASE_TEXTS[plan.phase]}" + (f" ({reason})" if reason else ""),
            about=Subject(plan.job_id, name, plan.owner),
            data={
                "phase": plan.phase.value,
                "trigger": plan.trigger_id,
                "new-job": plan.new_id,
                "savepoint": plan.savepoint and without_credentials(plan.savepoint),
                "partitions": plan.partitions,
            },
        )

    def _close(self, job_id: JobId) -> None:
        if job_id in self._take_over.open:
            self._take_over.open.discard(job_id)
            self._report_recovery()

    def _report_recovery(self) -> None:
        done = self._take_over
        if done.open or not done.jobs:
            return
        self._record(
            EventKind.LEADER_RECOVERED,
            "all jobs of the previous leader are taken over; attempts that continue: "
            f"{done.adopted}, that were started again: {done.restarted}",
            data={"jobs": done.jobs, "adopted": done.adopted, "restarted": done.restarted},
        )


_END_TEXTS = {
    JobStatus.FINISHED: "finished",
    JobStatus.FAILED: "failed",
    JobStatus.CANCELED: "cancelled",
}


_PHASE_TEXTS = {
    ReplacementPhase.STOPPING: "the job is being stopped with a savepoint",
    ReplacementPhase.DIVIDING: "the state in the savepoint is being repartitioned",
    ReplacementPhase.STARTING: "the new version is being submitted",
    ReplacementPhase.WATCHING: "the new version has to run for its trial window",
    ReplacementPhase.ENDING: "the new version failed its trial window and is being cancelled",
    ReplacementPhase.RETURNING: "the old version is being submitted again",
    ReplacementPhase.DONE: "the new version has replaced the old one",
    ReplacementPhase.ROLLED_BACK: "the old version continues under another id",
    ReplacementPhase.FAILED: "it failed without a rollback",
}


def _attempts_of(details: JobDetails) -> Iterator[tuple[RegionId, AttemptId]]:
    """The attempts that are not over, by their regions."""
    for region in details.regions:
        if not region.current.state.terminal:
            yield region.id, region.current.attempt


def _seconds(runtime: Millis) -> str:
    return f"{runtime / 1000:.1f} s"

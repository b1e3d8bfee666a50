"""The next step of a replacement: an upgrade or a rescale of a running streaming job. Pure.

A replacement stops the old version of a job with a savepoint, starts the new version from it, and
watches the new version for a trial window. If the new version fails within the window, the old
version is started again (rollback). Any leader may die at any point and another one continues, so
the decision is made only from the plan on record and from what the jobs of the cluster are now,
never from what this leader remembers to have done.

Two invariants:

- Two versions never run at the same time, or a sink would receive rows twice.
- The job is never lost: as long as the replacement is not over, either a version runs, or the
  savepoint (or a retained checkpoint) from which one can be started is on record.

Hence the order:

1. A phase is on record before anything is done in it (`AdvancePhase` comes first), so the next
   leader repeats the step instead of skipping it. Every step may therefore happen twice. The plan
   contains the ids by which a repetition is recognized: `order` for the stop and its savepoint,
   `new_id` and `back_id` for the submissions.
2. The new version is submitted only after the old one has finished with the savepoint of this plan.
3. The old version returns only after the new one has ended for good. It then starts from the last
   checkpoint of the new version, if that has committed anything since the savepoint.

The phases, with the phase that follows a failure in brackets:

    STOPPING [FAILED: the job is left alone] -> DIVIDING (rescale only) [RETURNING]
      -> STARTING [RETURNING] -> WATCHING [ENDING] -> DONE
    ENDING (cancel the new version) -> RETURNING (start the old one) [FAILED] -> ROLLED_BACK
"""

from dataclasses import dataclass
from typing import assert_never

import msgspec

from stoker.core.checkpoints import CheckpointKind, CheckpointStatus
from stoker.core.headlines import headline_of
from stoker.core.replacements import Replacement, ReplacementKind, ReplacementPhase
from stoker.core.results import JobDetails
from stoker.core.states import ExecutionState, JobStatus

START_SECONDS = 300.0
"""Time for a version to get slots and start Spark; after that it counts as not running."""


@dataclass(frozen=True, kw_only=True)
class JobSnapshot:
    """What the decision needs to know of one job, live or ended."""

    status: JobStatus
    runs: bool = False
    """Whether the job runs and each of its regions is running or finished."""
    first_failure: str | None = None
    """The first failure of the job, in one line."""
    waiting: str = ""
    """Why the job waits for slots, or empty."""
    stopped_at: str | None = None
    """Path of the savepoint with which the job was stopped."""
    retained: str | None = None
    """Path of the last checkpoint of an ended job, if it was kept."""


@dataclass(frozen=True, kw_only=True)
class StopProgress:
    """The stop that this leader requested under `order`, the id of the stop in the plan."""

    is_done: bool = False
    failure: str | None = None


@dataclass(frozen=True, kw_only=True)
class Observation:
    """Everything outside the plan that the decision depends on."""

    in_phase_seconds: float = 0.0
    """Time since this leader first knew the plan in its present phase."""
    steady_seconds: float | None = None
    """Time for which this leader has seen the new version running; None while it does not run."""
    old: JobSnapshot | None = None
    """The job that is to be replaced. None, like the next two, when no such job exists."""
    new: JobSnapshot | None = None
    """The new version, under `plan.new_id`."""
    restored: JobSnapshot | None = None
    """The old version after a rollback, under `plan.back_id`."""
    stop: StopProgress | None = None
    """None when this leader has not requested the stop."""
    repartitioned: str | None = None
    """Path of the repartitioned savepoint, once this leader has made it."""
    refusal: str | None = None
    """Why the work of this phase (repartitioning, submission) was refused for good."""


@dataclass(frozen=True)
class WaitForChange:
    """Decide again in a moment."""


@dataclass(frozen=True)
class StopOldVersion:
    """Stop the old version with a savepoint, under the order of the plan."""


@dataclass(frozen=True)
class Repartition:
    """Repartition the state in the savepoint."""


@dataclass(frozen=True)
class SubmitNewVersion:
    """Start the new version from the savepoint, which is repartitioned for a rescale."""


@dataclass(frozen=True)
class SubmitOldVersion:
    """Start the old version from the last checkpoint of the new one, or from the savepoint."""


@dataclass(frozen=True)
class CancelNewVersion:
    """Cancel the new version: it failed its trial window."""


@dataclass(frozen=True)
class AdvancePhase:
    """Put the changed plan on record, before anything else is done."""

    plan: Replacement


ReplacementStep = (
    WaitForChange
    | StopOldVersion
    | Repartition
    | SubmitNewVersion
    | SubmitOldVersion
    | CancelNewVersion
    | AdvancePhase
)


def snapshot_of(details: JobDetails) -> JobSnapshot:
    latest = details.checkpoints.latest_savepoint
    stopped = (
        latest is not None
        and latest.kind is CheckpointKind.STOP_SAVEPOINT
        and latest.status is CheckpointStatus.COMPLETED
    )
    retained = details.checkpoints.retained
    good = (ExecutionState.RUNNING, ExecutionState.FINISHED)
    return JobSnapshot(
        status=details.status,
        runs=details.status is JobStatus.RUNNING
        and all(region.current.state in good for region in details.regions),
        first_failure=_first_failure(details),
        waiting=details.waiting or "",
        stopped_at=latest.path if latest is not None and stopped else None,
        retained=None if retained is None else retained.path,
    )


def _first_failure(details: JobDetails) -> str | None:
    if not details.failures:
        return None
    # The oldest failure: later ones may be its consequences. The job's exceptions have the rest of
    # a long message.
    failure = details.failures[-1].failure
    place = f"\n  in {failure.place}" if failure.place else ""
    return f"{headline_of(failure)}{place}"


def decide(plan: Replacement, observed: Observation, fresh_order: str) -> ReplacementStep:
    """`fresh_order` is an id under which no earlier leader has requested a savepoint.

    The stop of a leader that died may have come to nothing. It is repeated under a fresh order, so
    that a late result of the first request cannot be mistaken for the result of the second one.
    """
    match plan.phase:
        case ReplacementPhase.STOPPING:
            return _stopping(plan, observed, fresh_order)
        case ReplacementPhase.DIVIDING:
            return _dividing(plan, observed)
        case ReplacementPhase.STARTING:
            return _starting(plan, observed)
        case ReplacementPhase.WATCHING:
            return _watching(plan, observed)
        case ReplacementPhase.ENDING:
            return _ending(plan, observed)
        case ReplacementPhase.RETURNING:
            return _returning(plan, observed)
        case ReplacementPhase.DONE | ReplacementPhase.ROLLED_BACK | ReplacementPhase.FAILED:
            return WaitForChange()
        case _:
            assert_never(plan.phase)


def _advance_to(plan: Replacement, phase: ReplacementPhase, **changes: str | None) -> AdvancePhase:
    return AdvancePhase(msgspec.structs.replace(plan, phase=phase, **changes))


def _stopping(plan: Replacement, observed: Observation, fresh_order: str) -> ReplacementStep:
    old = observed.old
    if old is None:
        return _advance_to(
            plan, ReplacementPhase.FAILED, reason=f"job {plan.job_id} no longer exists"
        )
    is_ours = old.stopped_at == plan.stop_path
    if old.status is JobStatus.FINISHED and is_ours:
        is_rescale = plan.kind is ReplacementKind.RESCALE
        phase = ReplacementPhase.DIVIDING if is_rescale else ReplacementPhase.STARTING
        return _advance_to(plan, phase, savepoint=plan.stop_path)
    if old.status.globally_terminal:
        reason = f"job {plan.job_id} ended as {old.status} before it was stopped with a savepoint"
        return _advance_to(plan, ReplacementPhase.FAILED, reason=reason)
    if observed.stop is not None:
        if observed.stop.failure is not None:
            reason = f"the job continues unchanged: {observed.stop.failure}"
            return _advance_to(plan, ReplacementPhase.FAILED, reason=reason)
        # The savepoint is under way, or exists and the job is about to end.
        return WaitForChange()
    if is_ours or (not old.runs and observed.in_phase_seconds < START_SECONDS):
        # Stopped under an earlier leader, or the job is just being recovered.
        return WaitForChange()
    if not old.runs:
        reason = f"the job was not stopped because it is not running{_because(old)}"
        return _advance_to(plan, ReplacementPhase.FAILED, reason=reason)
    if plan.order != fresh_order:
        # The stop that an earlier leader requested has come to nothing.
        return _advance_to(plan, ReplacementPhase.STOPPING, order=fresh_order)
    return StopOldVersion()


def _dividing(plan: Replacement, observed: Observation) -> ReplacementStep:
    if observed.refusal is not None:
        return _advance_to(plan, ReplacementPhase.RETURNING, reason=observed.refusal)
    if observed.repartitioned is not None:
        return _advance_to(plan, ReplacementPhase.STARTING, origin=observed.repartitioned)
    return Repartition()


def _starting(plan: Replacement, observed: Observation) -> ReplacementStep:
    if observed.new is not None:
        return _advance_to(plan, ReplacementPhase.WATCHING)
    if observed.refusal is not None:
        return _advance_to(plan, ReplacementPhase.RETURNING, reason=observed.refusal, origin=None)
    return SubmitNewVersion()


def _watching(plan: Replacement, observed: Observation) -> ReplacementStep:
    new = observed.new
    if new is None:
        reason = f"the new version, job {plan.new_id}, no longer exists"
        return _advance_to(plan, ReplacementPhase.FAILED, reason=reason)
    if new.status is JobStatus.FINISHED:
        return _advance_to(plan, ReplacementPhase.DONE)
    if new.status in (JobStatus.CANCELLING, JobStatus.CANCELED):
        # A user cancelled the job, so the old version must not come back.
        return _advance_to(plan, ReplacementPhase.DONE, reason="the new version was cancelled")
    if new.first_failure is not None or new.status.globally_terminal:
        reason = new.first_failure or f"the new version ended as {new.status}"
        return _advance_to(plan, ReplacementPhase.ENDING, reason=reason)
    if observed.steady_seconds is not None:
        steady = observed.steady_seconds >= plan.window_seconds
        return _advance_to(plan, ReplacementPhase.DONE) if steady else WaitForChange()
    if observed.in_phase_seconds >= START_SECONDS:
        reason = f"the new version is not running after {START_SECONDS:g} s{_because(new)}"
        return _advance_to(plan, ReplacementPhase.ENDING, reason=reason)
    return WaitForChange()


def _ending(plan: Replacement, observed: Observation) -> ReplacementStep:
    new = observed.new
    if new is None:
        return _advance_to(plan, ReplacementPhase.RETURNING, origin=None)
    if new.status is JobStatus.FINISHED:
        return _advance_to(plan, ReplacementPhase.DONE)
    if new.status.globally_terminal:
        # The old version continues after the last commit of the new one: no row is written twice.
        return _advance_to(plan, ReplacementPhase.RETURNING, origin=new.retained)
    return WaitForChange() if new.status is JobStatus.CANCELLING else CancelNewVersion()


def _returning(plan: Replacement, observed: Observation) -> ReplacementStep:
    if observed.restored is not None:
        return _advance_to(plan, ReplacementPhase.ROLLED_BACK)
    if observed.refusal is not None:
        reason = (
            f"{plan.reason}; and the old version cannot be started again: {observed.refusal}; its "
            f"savepoint is {plan.origin or plan.savepoint}"
        )
        return _advance_to(plan, ReplacementPhase.FAILED, reason=reason)
    return SubmitOldVersion()


def _because(job: JobSnapshot) -> str:
    return f": {job.waiting}" if job.waiting else ""

"""What is to be done next to replace a job by another version of it. Pure.

Decided from the plan on record and from what the jobs of the cluster are now, so that whoever
leads decides the same, whatever the leader before had begun.
"""

from dataclasses import dataclass
from typing import assert_never

import msgspec

from stoker.core.checkpoints import CheckpointKind, CheckpointStatus
from stoker.core.replacements import Replacement, ReplacementKind, ReplacementPhase
from stoker.core.results import JobDetails
from stoker.core.states import ExecutionState, JobStatus

START_SECONDS = 300.0
"""For slots and Spark; a version that does not run by then is not waited for any longer."""


@dataclass(frozen=True, kw_only=True)
class JobSeen:
    """What matters of a job, live or ended."""

    status: JobStatus
    runs: bool = False
    """All its regions do, or are finished."""
    trouble: str | None = None
    """Its first failure, in a line."""
    waiting: str = ""
    stopped_at: str | None = None
    """The savepoint with which it was stopped."""
    retained: str | None = None
    """The last checkpoint of an ended job, if that was kept."""


@dataclass(frozen=True, kw_only=True)
class StopSeen:
    """The stop that this leader asked for, under the plan's order."""

    done: bool = False
    failure: str | None = None


@dataclass(frozen=True, kw_only=True)
class World:
    in_phase_seconds: float = 0.0
    """Since this leader knows the plan in its phase."""
    steady_seconds: float | None = None
    """Since the new version runs, as this leader has seen it."""
    old: JobSeen | None = None
    new: JobSeen | None = None
    back: JobSeen | None = None
    stop: StopSeen | None = None
    divided: str | None = None
    refusal: str | None = None
    """Why what this phase does cannot be done: a division or a submission."""


@dataclass(frozen=True)
class Wait:
    """For a job to change, or for the time to pass."""


@dataclass(frozen=True)
class Stop:
    """The old version, with a savepoint, under the plan's order."""


@dataclass(frozen=True)
class Divide:
    """The state in the savepoint."""


@dataclass(frozen=True)
class SubmitNew:
    """From the savepoint, or from the divided one."""


@dataclass(frozen=True)
class SubmitOld:
    """From where the new version was, or from the savepoint."""


@dataclass(frozen=True)
class CancelNew:
    """It does not do."""


@dataclass(frozen=True)
class Advance:
    """On record before anything else is done."""

    plan: Replacement


Step = Wait | Stop | Divide | SubmitNew | SubmitOld | CancelNew | Advance


def seen(details: JobDetails) -> JobSeen:
    latest = details.checkpoints.latest_savepoint
    stopped = (
        latest is not None
        and latest.kind is CheckpointKind.STOP_SAVEPOINT
        and latest.status is CheckpointStatus.COMPLETED
    )
    retained = details.checkpoints.retained
    good = (ExecutionState.RUNNING, ExecutionState.FINISHED)
    return JobSeen(
        status=details.status,
        runs=details.status is JobStatus.RUNNING
        and all(region.current.state in good for region in details.regions),
        trouble=_trouble(details),
        waiting=details.waiting or "",
        stopped_at=latest.path if latest is not None and stopped else None,
        retained=None if retained is None else retained.path,
    )


def _trouble(details: JobDetails) -> str | None:
    if not details.failures:
        return None
    # The oldest: what comes after it may be its consequence. The rest of a long message is in
    # the job's exceptions.
    failure = details.failures[-1].failure
    first = failure.message.strip().splitlines() or [""]
    return f"{failure.error}: {first[0]}"


def decide(plan: Replacement, world: World, fresh_order: str) -> Step:
    """`fresh_order` names a savepoint that nobody has begun yet."""
    match plan.phase:
        case ReplacementPhase.STOPPING:
            return _stopping(plan, world, fresh_order)
        case ReplacementPhase.DIVIDING:
            return _dividing(plan, world)
        case ReplacementPhase.STARTING:
            return _starting(plan, world)
        case ReplacementPhase.WATCHING:
            return _watching(plan, world)
        case ReplacementPhase.ENDING:
            return _ending(plan, world)
        case ReplacementPhase.RETURNING:
            return _returning(plan, world)
        case ReplacementPhase.DONE | ReplacementPhase.ROLLED_BACK | ReplacementPhase.FAILED:
            return Wait()
        case _:
            assert_never(plan.phase)


def _to(plan: Replacement, phase: ReplacementPhase, **changes: str | None) -> Advance:
    return Advance(msgspec.structs.replace(plan, phase=phase, **changes))


def _stopping(plan: Replacement, world: World, fresh_order: str) -> Step:
    old = world.old
    if old is None:
        return _to(plan, ReplacementPhase.FAILED, reason=f"job {plan.job_id} is not there any more")
    is_ours = old.stopped_at == plan.stop_path
    if old.status is JobStatus.FINISHED and is_ours:
        divides = plan.kind is ReplacementKind.RESCALE
        phase = ReplacementPhase.DIVIDING if divides else ReplacementPhase.STARTING
        return _to(plan, phase, savepoint=plan.stop_path)
    if old.status.globally_terminal:
        reason = f"job {plan.job_id} ended as {old.status} before it was stopped with a savepoint"
        return _to(plan, ReplacementPhase.FAILED, reason=reason)
    if world.stop is not None:
        if world.stop.failure is not None:
            reason = f"the job goes on as it was: {world.stop.failure}"
            return _to(plan, ReplacementPhase.FAILED, reason=reason)
        # Its savepoint is being taken, or is there and the job on its way to its end.
        return Wait()
    if is_ours or (not old.runs and world.in_phase_seconds < START_SECONDS):
        # By the leader before, or a job that is being found and started again.
        return Wait()
    if not old.runs:
        reason = f"the job was not stopped, since it does not run{_because(old)}"
        return _to(plan, ReplacementPhase.FAILED, reason=reason)
    if plan.order != fresh_order:
        # What the leader before had begun under its order has come to nothing.
        return _to(plan, ReplacementPhase.STOPPING, order=fresh_order)
    return Stop()


def _dividing(plan: Replacement, world: World) -> Step:
    if world.refusal is not None:
        return _to(plan, ReplacementPhase.RETURNING, reason=world.refusal)
    if world.divided is not None:
        return _to(plan, ReplacementPhase.STARTING, origin=world.divided)
    return Divide()


def _starting(plan: Replacement, world: World) -> Step:
    if world.new is not None:
        return _to(plan, ReplacementPhase.WATCHING)
    if world.refusal is not None:
        return _to(plan, ReplacementPhase.RETURNING, reason=world.refusal, origin=None)
    return SubmitNew()


def _watching(plan: Replacement, world: World) -> Step:
    new = world.new
    if new is None:
        reason = f"the new version, job {plan.new_id}, is not there any more"
        return _to(plan, ReplacementPhase.FAILED, reason=reason)
    if new.status is JobStatus.FINISHED:
        return _to(plan, ReplacementPhase.DONE)
    if new.status in (JobStatus.CANCELLING, JobStatus.CANCELED):
        # By somebody who wants it gone, not replaced: the old version is not brought back.
        return _to(plan, ReplacementPhase.DONE, reason="the new version was cancelled")
    if new.trouble is not None or new.status.globally_terminal:
        reason = new.trouble or f"it ended as {new.status}"
        return _to(plan, ReplacementPhase.ENDING, reason=reason)
    if world.steady_seconds is not None:
        steady = world.steady_seconds >= plan.window_seconds
        return _to(plan, ReplacementPhase.DONE) if steady else Wait()
    if world.in_phase_seconds >= START_SECONDS:
        reason = f"it does not run after {START_SECONDS:g} s{_because(new)}"
        return _to(plan, ReplacementPhase.ENDING, reason=reason)
    return Wait()


def _ending(plan: Replacement, world: World) -> Step:
    new = world.new
    if new is None:
        return _to(plan, ReplacementPhase.RETURNING, origin=None)
    if new.status is JobStatus.FINISHED:
        return _to(plan, ReplacementPhase.DONE)
    if new.status.globally_terminal:
        # The old version goes on from what the new one has committed: nothing is written twice.
        return _to(plan, ReplacementPhase.RETURNING, origin=new.retained)
    return Wait() if new.status is JobStatus.CANCELLING else CancelNew()


def _returning(plan: Replacement, world: World) -> Step:
    if world.back is not None:
        return _to(plan, ReplacementPhase.ROLLED_BACK)
    if world.refusal is not None:
        reason = (
            f"{plan.reason}; and the old version cannot go on: {world.refusal}; its savepoint is "
            f"{plan.origin or plan.savepoint}"
        )
        return _to(plan, ReplacementPhase.FAILED, reason=reason)
    return SubmitOld()


def _because(job: JobSeen) -> str:
    return f": {job.waiting}" if job.waiting else ""

"""Answers about a job that is replaced by another version of it."""

from stoker.api.operations import COMPLETED, IN_PROGRESS, OperationStatus
from stoker.api.shape import Answer, Dashed
from stoker.core.ids import JobId
from stoker.core.replacements import Replacement, ReplacementPhase


class ReplacementState(Dashed, frozen=True, kw_only=True):
    kind: str
    phase: ReplacementPhase
    job_id: JobId
    """The job that stands for the old one now, or will when it is done."""
    old_job_id: JobId
    new_job_id: JobId
    rolled_back: bool = False
    savepoint: str | None = None
    """With which the old version was stopped."""
    origin: str | None = None
    """What the version that runs has begun from, if not that."""
    reason: str = ""
    """Why the new version is not the one that runs."""

    @property
    def over(self) -> bool:
        return self.phase.over

    @property
    def failed(self) -> bool:
        return self.phase is ReplacementPhase.FAILED


class ReplacementAnswer(Answer, frozen=True, kw_only=True):
    """GET /jobs/:jobid/replacements/:triggerid"""

    status: OperationStatus
    operation: ReplacementState


def answer_of(plan: Replacement) -> ReplacementAnswer:
    state = ReplacementState(
        kind=plan.kind.value,
        phase=plan.phase,
        job_id=plan.running_id,
        old_job_id=plan.job_id,
        new_job_id=plan.new_id,
        rolled_back=plan.phase is ReplacementPhase.ROLLED_BACK,
        savepoint=plan.savepoint,
        origin=plan.origin,
        reason=plan.reason,
    )
    status = OperationStatus(id=COMPLETED if plan.phase.over else IN_PROGRESS)
    return ReplacementAnswer(status=status, operation=state)

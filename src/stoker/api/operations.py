"""Operations that continue after their request was answered.

The answer to the request is an id (Triggered). A client asks for the status with that id until the
operation is COMPLETED, and then finds the result or the cause of the failure.
"""

from typing import Any

import msgspec

from stoker.api.shape import Answer, Dashed
from stoker.core.checkpoints import SavepointSummary
from stoker.core.ids import JobId
from stoker.core.replacements import Replacement, ReplacementPhase

IN_PROGRESS = "IN_PROGRESS"
COMPLETED = "COMPLETED"


class Triggered(Dashed, frozen=True, kw_only=True):
    """Answer to a request that triggers an operation; the id leads to its status."""

    request_id: str


class OperationStatus(Answer, frozen=True, kw_only=True):
    id: str
    """IN_PROGRESS or COMPLETED."""


class OperationAnswer(Answer, frozen=True, kw_only=True):
    """GET …/:triggerid"""

    status: OperationStatus
    operation: dict[str, Any] | None = None
    """The result, or `failure-cause` after a failure; null while in progress, as in Flink."""


class FailureCause(Dashed, frozen=True, kw_only=True):
    error: str = msgspec.field(name="class")
    stack_trace: str
    serialized_throwable: bytes = b""
    """The only field that Flink's client reads; see `rest/flink/java_throwable.py`."""


class Savepoints(Answer, frozen=True, kw_only=True):
    """GET /savepoints"""

    savepoints: list[SavepointSummary]


class SavepointOutcome(Answer, frozen=True, kw_only=True):
    """Outcome of a savepoint or checkpoint that a client has triggered."""

    done: bool
    location: str | None = None
    number: int | None = None
    """Number of a checkpoint; None for a savepoint."""
    failure: str | None = None


def outcome_of(answer: dict[str, Any]) -> SavepointOutcome:
    """Read the outcome from the body of an OperationAnswer."""
    if answer.get("status", {}).get("id") != COMPLETED:
        return SavepointOutcome(done=False)
    operation = answer.get("operation") or {}
    cause = operation.get("failure-cause")
    if cause is not None:
        text = str(cause.get("stack-trace") or cause.get("class"))
        return SavepointOutcome(done=True, failure=text.partition(": ")[2] or text)
    return SavepointOutcome(
        done=True, location=operation.get("location"), number=operation.get("checkpointId")
    )


class ReplacementState(Dashed, frozen=True, kw_only=True):
    kind: str
    phase: ReplacementPhase
    job_id: JobId
    """The job that continues the old one; until the replacement is over, the old one itself."""
    old_job_id: JobId
    new_job_id: JobId
    rolled_back: bool = False
    savepoint: str | None = None
    """Savepoint with which the old version was stopped."""
    origin: str | None = None
    """What the running version started from, if not from that savepoint."""
    reason: str = ""
    """Why the new version does not run."""

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

"""Attempts of regions, and the commands by which the execution graph starts and ends them."""

from dataclasses import dataclass, field

from stoker.core.ids import AllocationId, AttemptId, InstanceId, JobId, RegionId, ResourceId
from stoker.core.results import (
    AttemptDetails,
    AttemptOutcome,
    Failure,
    FailureRecord,
    Progress,
)
from stoker.core.states import EXECUTION_TRANSITIONS, ExecutionState
from stoker.core.values import Millis


@dataclass(frozen=True, kw_only=True)
class SlotHandle:
    """A slot that a task executor gave to this job."""

    allocation: AllocationId
    resource_id: ResourceId
    instance: InstanceId


@dataclass
class Attempt:
    id: AttemptId
    number: int
    region: RegionId
    state: ExecutionState = ExecutionState.CREATED
    slot: SlotHandle | None = None
    preferred: ResourceId | None = None
    """Task executor of the previous attempt; None for the first attempt."""
    timestamps: dict[ExecutionState, Millis] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)

    def move(self, state: ExecutionState, now: Millis) -> None:
        if state not in EXECUTION_TRANSITIONS[self.state]:
            raise ValueError(f"attempt {self.id} cannot go from {self.state} to {state}")
        self.state = state
        self.timestamps[state] = now

    @property
    def is_deployed(self) -> bool:
        """Whether something may run for this attempt at a task executor."""
        return self.state in _DEPLOYED

    def failed_with(self, failure: Failure, now: Millis) -> FailureRecord:
        return FailureRecord(
            failure=failure,
            at=now,
            region=self.region,
            attempt=self.id,
            attempt_number=self.number,
            task_executor=self.slot.resource_id if self.slot else None,
        )

    def failed_outcome(self, job_id: JobId, failure: Failure, now: Millis) -> AttemptOutcome:
        """The outcome that the task executor would have reported."""
        return AttemptOutcome(
            job_id=job_id,
            region=self.region,
            attempt=self.id,
            state=ExecutionState.FAILED,
            at=now,
            failure=failure,
            progress=self.progress,
        )

    def details(self) -> AttemptDetails:
        return AttemptDetails(
            attempt=self.id,
            number=self.number,
            state=self.state,
            task_executor=self.slot.resource_id if self.slot else None,
            instance=self.slot.instance if self.slot else None,
            timestamps=dict(self.timestamps),
            progress=self.progress,
        )


_DEPLOYED = frozenset(
    {
        ExecutionState.DEPLOYING,
        ExecutionState.INITIALIZING,
        ExecutionState.RUNNING,
        ExecutionState.CANCELING,
        ExecutionState.RECONCILING,
    }
)


@dataclass(frozen=True)
class Deploy:
    region: RegionId
    attempt: AttemptId
    number: int
    slot: SlotHandle


@dataclass(frozen=True)
class CancelAttempt:
    attempt: AttemptId
    slot: SlotHandle


@dataclass(frozen=True)
class ReleaseSlots:
    slots: tuple[SlotHandle, ...]


@dataclass(frozen=True)
class RestartAfter:
    region: RegionId
    attempt: AttemptId
    seconds: float


Command = Deploy | CancelAttempt | ReleaseSlots | RestartAfter


@dataclass(frozen=True, kw_only=True)
class PreviousAttempt:
    """The record of an attempt that a previous leader deployed."""

    attempt: AttemptId
    number: int
    slot: SlotHandle
    outcome: AttemptOutcome | None = None
    interrupted: bool = False
    """The attempt died after the output of its region was decided."""

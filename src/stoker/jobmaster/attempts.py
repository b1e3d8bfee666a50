"""Attempts of regions: what is tried where, and how far it is."""

from dataclasses import dataclass, field

from stoker.core.ids import AllocationId, AttemptId, InstanceId, RegionId, ResourceId
from stoker.core.regions import Region
from stoker.core.results import (
    AttemptDetails,
    Failure,
    FailureRecord,
    Millis,
    Progress,
    RegionDetails,
)
from stoker.core.states import EXECUTION_TRANSITIONS, ExecutionState

FORMER_ATTEMPTS_KEPT = 16


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
    timestamps: dict[ExecutionState, Millis] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)

    def move(self, state: ExecutionState, now: Millis) -> None:
        if state not in EXECUTION_TRANSITIONS[self.state]:
            raise ValueError(f"attempt {self.id} cannot go from {self.state} to {state}")
        self.state = state
        self.timestamps[state] = now

    @property
    def deployed(self) -> bool:
        """Something may run for it somewhere."""
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


@dataclass
class RegionRun:
    """One region with its current attempt and the former ones, oldest first."""

    region: Region
    current: Attempt
    former: list[Attempt] = field(default_factory=list)
    restart_pending: bool = False

    @property
    def finished(self) -> bool:
        return self.current.state is ExecutionState.FINISHED

    @property
    def wants_slot(self) -> bool:
        waits = self.current.state is ExecutionState.SCHEDULED or self.restart_pending
        return waits or self.current.deployed

    def begin_again(self, attempt: AttemptId, now: Millis, *, at_once: bool = False) -> None:
        self.former = [*self.former, self.current][-FORMER_ATTEMPTS_KEPT:]
        self.current = Attempt(attempt, self.current.number + 1, self.region.id)
        self.current.timestamps[ExecutionState.CREATED] = now
        self.restart_pending = not at_once

    def details(self) -> RegionDetails:
        return RegionDetails(
            id=self.region.id,
            vertices=self.region.vertices,
            streaming=self.region.streaming,
            current=self.current.details(),
            former=tuple(attempt.details() for attempt in self.former),
        )

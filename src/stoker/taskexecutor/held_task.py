"""One attempt at its task executor, from deployment until its outcome was acknowledged."""

import asyncio
from dataclasses import dataclass, field
from functools import cached_property

from stoker.core.ids import AttemptId, JobId
from stoker.core.regions import regions_of
from stoker.core.results import (
    AttemptOutcome,
    Failure,
    Progress,
)
from stoker.core.states import ExecutionState
from stoker.core.values import Millis
from stoker.engine.contract import RunningTask
from stoker.gateways.jobmaster import HeldAttempt
from stoker.gateways.taskexecutor import TaskDeployment


@dataclass
class HeldTask:
    deployment: TaskDeployment
    lease_until: float
    state: ExecutionState = ExecutionState.DEPLOYING
    state_at: Millis = 0
    state_since: float = 0.0
    """Loop time."""
    reported_state: ExecutionState = ExecutionState.DEPLOYING
    progress: Progress = field(default_factory=Progress)
    reported_progress: Progress = field(default_factory=Progress)
    launching: "asyncio.Task[RunningTask] | None" = None
    running: RunningTask | None = None
    cancel_reason: str | None = None
    is_moving: bool = False
    """Cancelled so that it begins again at another task executor."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Nothing runs for it any more; its outcome may not be on record yet."""
    outcome: AttemptOutcome | None = None
    """Set when it is on record: it may be told from then on, and its slot is free."""
    recording: "asyncio.Task[AttemptOutcome] | None" = None
    """Of one that finished, begun while the engine still clears away what is left of it."""
    recorded: asyncio.Event = field(default_factory=asyncio.Event)
    """The outcome is there."""

    def renew_lease(self, until: float) -> None:
        """Its process knows the end of its lease too: it may be all that is left to end it."""
        self.lease_until = max(self.lease_until, until)
        if self.running is not None:
            self.running.renew_lease(self.lease_until)

    @property
    def attempt(self) -> AttemptId:
        return self.deployment.attempt

    @property
    def job_id(self) -> JobId:
        return self.deployment.graph.job_id

    @cached_property
    def streaming(self) -> bool:
        regions = {region.id: region for region in regions_of(self.deployment.graph)}
        return regions[self.deployment.region].streaming

    def to_held_attempt(self) -> HeldAttempt:
        return HeldAttempt(
            region=self.deployment.region,
            attempt=self.attempt,
            number=self.deployment.number,
            allocation=self.deployment.allocation,
            state=self.state,
            outcome=self.outcome,
        )

    def ended(
        self, state: ExecutionState, at: Millis, failure: Failure | None = None
    ) -> AttemptOutcome:
        return AttemptOutcome(
            job_id=self.job_id,
            region=self.deployment.region,
            attempt=self.attempt,
            state=state,
            at=at,
            failure=failure,
            progress=self.progress,
        )

"""An attempt at its task executor, from its deployment until its outcome is acknowledged."""

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
    """Loop time at which the task entered `state`."""
    reported_state: ExecutionState = ExecutionState.DEPLOYING
    progress: Progress = field(default_factory=Progress)
    reported_progress: Progress = field(default_factory=Progress)
    launching: "asyncio.Task[RunningTask] | None" = None
    running: RunningTask | None = None
    cancel_reason: str | None = None
    is_moving: bool = False
    """The task is cancelled in order to start again at another task executor."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when nothing runs any more; the outcome may not be on record yet."""
    outcome: AttemptOutcome | None = None
    """None until it is on record; from then on it may be reported and the slot is free."""
    recording: "asyncio.Task[None] | None" = None
    """Records the outcome of a finished task while the engine still cleans up after it."""
    recorded: asyncio.Event = field(default_factory=asyncio.Event)
    """Set together with `outcome`."""

    def renew_lease(self, until: float) -> None:
        """Extend the lease, also in the runner, which ends the task by itself if all else fails."""
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

    def make_outcome(
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

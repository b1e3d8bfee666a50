"""The regions of a job and their attempts, as the execution graph sees them. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from stoker.core.ids import AllocationId, AttemptId, InstanceId, RegionId
from stoker.core.regions import Region
from stoker.core.results import (
    RegionDetails,
)
from stoker.core.states import ExecutionState
from stoker.core.values import Millis
from stoker.jobmaster.attempts import Attempt


@dataclass
class RegionAttempts:
    """One region with its current attempt and the previous ones, oldest first."""

    region: Region
    current: Attempt
    attempts_kept: int = 16
    previous: list[Attempt] = field(default_factory=list)
    restart_pending: bool = False
    restart_when_ended: bool = False
    """The current attempt is cancelled in order to restart the region."""
    interruptions: int = 0
    """Retries that the restart strategy did not count, because an attempt was interrupted."""

    @property
    def is_finished(self) -> bool:
        return self.current.state is ExecutionState.FINISHED

    @property
    def needs_slot(self) -> bool:
        waits = self.current.state is ExecutionState.SCHEDULED or self.restart_pending
        return waits or self.current.is_deployed

    @property
    def is_waiting(self) -> bool:
        return self.current.state is ExecutionState.CREATED and not self.restart_pending

    def start_new_attempt(self, attempt: AttemptId, now: Millis, *, at_once: bool = False) -> None:
        previous = [*self.previous, self.current]
        self.previous = previous[-self.attempts_kept :] if self.attempts_kept > 0 else []
        self.current = Attempt(attempt, self.current.number + 1, self.region.id)
        self.current.preferred = previous[-1].slot.resource_id if previous[-1].slot else None
        self.current.timestamps[ExecutionState.CREATED] = now
        self.restart_pending = not at_once
        self.restart_when_ended = False

    def details(self) -> RegionDetails:
        return RegionDetails(
            id=self.region.id,
            vertices=self.region.vertices,
            streaming=self.region.streaming,
            current=self.current.details(),
            former=tuple(attempt.details() for attempt in self.previous),
        )


class JobRegions:
    """All regions in topological order: a region comes after those that it reads."""

    def __init__(self, runs: Iterable[RegionAttempts]) -> None:
        self._by_region = {run.region.id: run for run in runs}

    def __iter__(self) -> Iterator[RegionAttempts]:
        return iter(self._by_region.values())

    def __getitem__(self, region: RegionId) -> RegionAttempts:
        return self._by_region[region]

    def get(self, region: RegionId) -> RegionAttempts | None:
        return self._by_region.get(region)

    def attempt(self, attempt: AttemptId) -> Attempt | None:
        """The attempt with this id if it is the current one of its region."""
        return next((run.current for run in self if run.current.id == attempt), None)

    def on(self, instance: InstanceId) -> list[Attempt]:
        return [
            run.current
            for run in self
            if run.current.is_deployed
            and run.current.slot
            and run.current.slot.instance == instance
        ]

    def used_slots(self) -> set[AllocationId]:
        return {
            run.current.slot.allocation
            for run in self
            if run.current.is_deployed and run.current.slot
        }

    def scheduled(self) -> list[RegionAttempts]:
        return [run for run in self if run.current.state is ExecutionState.SCHEDULED]

    def schedulable(self) -> list[RegionAttempts]:
        """Waiting regions whose inputs exist."""
        return [run for run in self if run.is_waiting and self._has_inputs(run)]

    def readers_of(self, region: RegionId) -> list[RegionAttempts]:
        """Unfinished regions that read this one, directly or through others."""
        found: list[RegionAttempts] = []
        reached = {region}
        for run in self:
            if run.region.reads & reached and not run.is_finished:
                found.append(run)
                reached.add(run.region.id)
        return found

    @property
    def all_ended(self) -> bool:
        return all(run.current.state.terminal for run in self)

    @property
    def is_finished(self) -> bool:
        return all(run.is_finished for run in self)

    @property
    def any_restarting(self) -> bool:
        return any(run.restart_pending for run in self)

    @property
    def any_reconciling(self) -> bool:
        return any(run.current.state is ExecutionState.RECONCILING for run in self)

    def _has_inputs(self, run: RegionAttempts) -> bool:
        return all(self._by_region[upstream].is_finished for upstream in run.region.reads)

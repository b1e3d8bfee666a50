"""The slots of one task executor. Events in, answers out; no I/O, time is an argument."""

from collections.abc import Container
from dataclasses import dataclass, field
from enum import Enum

from stoker.core.errors import Conflict, NotFound
from stoker.core.ids import AllocationId, JobId
from stoker.gateways.resourcemanager import SlotReport, SlotStatus


class SlotUse(Enum):
    RESERVED = "reserved"
    """Promised to a job; freed when its master does not take it in time."""
    ACTIVE = "active"
    RELEASING = "releasing"
    """Given up; its task still ends."""


@dataclass
class Allocation:
    id: AllocationId
    job_id: JobId
    index: int
    use: SlotUse
    since: float
    """When that use began."""


@dataclass
class SlotTable:
    size: int
    _allocations: dict[AllocationId, Allocation] = field(default_factory=dict)

    def reserve(self, job_id: JobId, allocation: AllocationId, index: int, now: float) -> bool:
        """True when newly reserved, False for the identical request again (X-TM-03)."""
        if not 0 <= index < self.size:
            raise NotFound(f"there is no slot {index} here: slots are 0 to {self.size - 1}")
        for held in self._allocations.values():
            if held.index != index:
                continue
            if (held.id, held.job_id) == (allocation, job_id):
                return False
            raise Conflict(
                f"slot {index} is held by job {held.job_id} (allocation {held.id})",
                job_id=held.job_id,
                allocation=held.id,
            )
        self._allocations[allocation] = Allocation(allocation, job_id, index, SlotUse.RESERVED, now)
        return True

    def activate(self, allocation: AllocationId, now: float) -> None:
        """Again is harmless; what was given up cannot be taken back."""
        held = self._allocations.get(allocation)
        if held is None or held.use is SlotUse.RELEASING:
            raise NotFound(f"no slot is allocated as {allocation} here", allocation=allocation)
        if held.use is SlotUse.RESERVED:
            held.use, held.since = SlotUse.ACTIVE, now

    def deactivate(self, job_id: JobId, now: float) -> None:
        """The job's master is gone: slots without it go back to reserved (TM-12)."""
        for held in self.of_job(job_id):
            if held.use is SlotUse.ACTIVE:
                held.use, held.since = SlotUse.RESERVED, now

    def release(self, allocation: AllocationId) -> None:
        """Its task still ends: not free before `free`."""
        if (held := self._allocations.get(allocation)) is not None:
            held.use = SlotUse.RELEASING

    def free(self, allocation: AllocationId) -> bool:
        return self._allocations.pop(allocation, None) is not None

    def held(self, allocation: AllocationId) -> Allocation | None:
        return self._allocations.get(allocation)

    def job_of(self, allocation: AllocationId) -> JobId | None:
        held = self._allocations.get(allocation)
        return held.job_id if held else None

    def use_of(self, allocation: AllocationId) -> SlotUse | None:
        held = self._allocations.get(allocation)
        return held.use if held else None

    def of_job(self, job_id: JobId) -> list[Allocation]:
        return [held for held in self._allocations.values() if held.job_id == job_id]

    def all(self) -> list[Allocation]:
        return list(self._allocations.values())

    def overdue(self, now: float, timeout: float) -> list[Allocation]:
        """Reserved ones that nobody took in time (TM-11)."""
        return [
            held
            for held in self._allocations.values()
            if held.use is SlotUse.RESERVED and now - held.since >= timeout
        ]

    def surplus(
        self, job_id: JobId, counted: Container[AllocationId], now: float, timeout: float
    ) -> list[Allocation]:
        """Taken by the job's master once, which does not count them any more (TM-15).

        Not the young ones: the master may have counted before it took them.
        """
        return [
            held
            for held in self.of_job(job_id)
            if held.use is SlotUse.ACTIVE and held.id not in counted and now - held.since >= timeout
        ]

    def report(self) -> SlotReport:
        by_index = {held.index: held for held in self._allocations.values()}
        return SlotReport(
            slots=tuple(
                SlotStatus(
                    index=index,
                    job_id=by_index[index].job_id if index in by_index else None,
                    allocation=by_index[index].id if index in by_index else None,
                )
                for index in range(self.size)
            )
        )

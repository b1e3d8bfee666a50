"""The slot table of a task executor whose next life takes up where this one ended (TM-22)."""

from stoker.core.failpoints import failpoint
from stoker.core.ids import AllocationId, JobId
from stoker.taskexecutor.slot_memory import KeptSlot, SlotMemory
from stoker.taskexecutor.slot_table import SlotTable


class LastingSlots(SlotTable):
    def __init__(self, size: int, memory: SlotMemory) -> None:
        super().__init__(size)
        self._memory = memory

    def reserve(self, job_id: JobId, allocation: AllocationId, index: int, now: float) -> bool:
        is_new = super().reserve(job_id, allocation, index, now)
        if is_new:
            failpoint("slots.before-keeping")
            self._memory.keep(KeptSlot(index=index, job_id=job_id, allocation=allocation))
            failpoint("slots.after-keeping")
        return is_new

    def release(self, allocation: AllocationId) -> None:
        self._forget(allocation)
        super().release(allocation)

    def free(self, allocation: AllocationId) -> bool:
        self._forget(allocation)
        return super().free(allocation)

    def restore(self, now: float) -> list[JobId]:
        """Reserved again, with as much time to be taken as a new one. Answers whose they are."""
        jobs = []
        for slot in self._memory.recall():
            if slot.index >= self.size:
                # It has fewer slots than it had.
                self._memory.forget(slot.index)
                continue
            super().reserve(slot.job_id, slot.allocation, slot.index, now)
            jobs.append(slot.job_id)
        return jobs

    def forget_all(self) -> None:
        """It leaves for good, or its jobs have gone elsewhere."""
        for held in self.all():
            self._memory.forget(held.index)

    def _forget(self, allocation: AllocationId) -> None:
        if (held := self.held(allocation)) is not None:
            self._memory.forget(held.index)

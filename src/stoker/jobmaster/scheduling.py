"""The slots of a job and the regions that get them. Pure.

Streaming regions start together or not at all, because a part of them would hold slots and never
end. Batch regions start one by one, in topological order, so that one slot is enough. Slots that no
region needs go back to their task executors at once, because other jobs may wait for them.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field

from stoker.core.ids import AllocationId, InstanceId
from stoker.core.states import ExecutionState
from stoker.core.values import Millis
from stoker.jobmaster.attempts import Command, Deploy, ReleaseSlots, SlotHandle
from stoker.jobmaster.regions import JobRegions, RegionAttempts


class Scheduler:
    def __init__(self, runs: JobRegions, *, max_slots: int | None) -> None:
        self._runs = runs
        self._max_slots = max_slots
        self._pool = SlotPool()

    @property
    def slots_held(self) -> int:
        return len(self._pool)

    def slots_on(self, instance: InstanceId) -> list[AllocationId]:
        return self._pool.on(instance)

    def slots_needed(self) -> int:
        """Slots for regions that are deployed, wait for a slot, or are about to restart."""
        wanted = sum(run.needs_slot for run in self._runs)
        return wanted if self._max_slots is None else min(wanted, self._max_slots)

    def accept(self, slots: Iterable[SlotHandle], needed: int) -> list[AllocationId]:
        """Accept as many slots as are needed, and again those that were accepted before."""
        accepted: list[AllocationId] = []
        for slot in slots:
            known = slot.allocation in self._pool or slot.allocation in self._runs.used_slots()
            if known or len(self._pool) < needed:
                self._pool.add(slot)
                accepted.append(slot.allocation)
        return accepted

    def drop(self, allocation: AllocationId) -> None:
        self._pool.drop(allocation)

    def drop_executor(self, instance: InstanceId) -> None:
        self._pool.drop_executor(instance)

    def schedule(self, now: Millis) -> list[Command]:
        """Deploy the regions that can run now and have a slot."""
        for run in self._runs.schedulable():
            run.current.move(ExecutionState.SCHEDULED, now)
        commands: list[Command] = []
        for run, slot in assign(self._runs.scheduled(), self._free()):
            run.current.slot = slot
            run.current.move(ExecutionState.DEPLOYING, now)
            commands.append(Deploy(run.region.id, run.current.id, run.current.number, slot))
        return commands

    def release_surplus(self, needed: int) -> list[Command]:
        """Release free slots beyond the need."""
        busy = self._pool.busy(self._runs.used_slots())
        surplus = self._free()[max(0, needed - busy) :]
        if not surplus:
            return []
        for slot in surplus:
            self._pool.drop(slot.allocation)
        return [ReleaseSlots(tuple(surplus))]

    def _free(self) -> list[SlotHandle]:
        return self._pool.free(self._runs.used_slots())


def assign(
    waiting: Sequence[RegionAttempts], free: Sequence[SlotHandle]
) -> list[tuple[RegionAttempts, SlotHandle]]:
    """Assign slots: streaming regions start together or not at all, batch regions one by one."""
    together = [run for run in waiting if run.region.streaming]
    apart = [run for run in waiting if not run.region.streaming]
    chosen = together if len(free) >= len(together) else []
    chosen = [*chosen, *apart[: len(free) - len(chosen)]]
    left = list(free)
    return [(run, _pick_slot(left, run)) for run in chosen]


def _pick_slot(free: list[SlotHandle], run: RegionAttempts) -> SlotHandle:
    """Take a slot, preferably on the task executor of the previous attempt."""
    same = [slot for slot in free if slot.resource_id == run.current.preferred]
    slot = same[0] if same else free[0]
    free.remove(slot)
    return slot


@dataclass
class SlotPool:
    _held: dict[AllocationId, SlotHandle] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, allocation: AllocationId) -> bool:
        return allocation in self._held

    def add(self, slot: SlotHandle) -> None:
        self._held[slot.allocation] = slot

    def drop(self, allocation: AllocationId) -> None:
        self._held.pop(allocation, None)

    def drop_executor(self, instance: InstanceId) -> None:
        self._held = {
            allocation: slot for allocation, slot in self._held.items() if slot.instance != instance
        }

    def on(self, instance: InstanceId) -> list[AllocationId]:
        return [slot.allocation for slot in self._held.values() if slot.instance == instance]

    def free(self, used: Set[AllocationId]) -> list[SlotHandle]:
        return [slot for slot in self._held.values() if slot.allocation not in used]

    def busy(self, used: Set[AllocationId]) -> int:
        return len(self._held.keys() & used)

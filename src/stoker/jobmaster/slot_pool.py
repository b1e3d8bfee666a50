"""The slots that task executors gave to a job, used or free."""

from collections.abc import Set
from dataclasses import dataclass, field

from stoker.core.ids import AllocationId, InstanceId
from stoker.jobmaster.attempts import SlotHandle


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

"""What a simulated task executor keeps of its slots on its machine's disk, until it is killed."""

from stoker.taskexecutor.slots import KeptSlot


class ProcessSlots:
    def __init__(self, disk: dict[int, KeptSlot]) -> None:
        self._disk = disk
        self.is_cut = False
        """The process is dead: what its code still does on its way out reaches no disk."""

    def keep(self, slot: KeptSlot) -> None:
        if not self.is_cut:
            self._disk[slot.index] = slot

    def forget(self, index: int) -> None:
        if not self.is_cut:
            self._disk.pop(index, None)

    def recall(self) -> list[KeptSlot]:
        return sorted(self._disk.values(), key=lambda slot: slot.index)

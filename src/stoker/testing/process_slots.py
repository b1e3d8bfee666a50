"""The slot records of a simulated task executor on the disk of its machine."""

from stoker.taskexecutor.slots import SavedSlot


class ProcessSlots:
    def __init__(self, disk: dict[int, SavedSlot]) -> None:
        self._disk = disk
        self.is_cut = False
        """The process is dead; what its code still does does not reach the disk."""

    def save(self, slot: SavedSlot) -> None:
        if not self.is_cut:
            self._disk[slot.index] = slot

    def remove(self, index: int) -> None:
        if not self.is_cut:
            self._disk.pop(index, None)

    def load(self) -> list[SavedSlot]:
        return sorted(self._disk.values(), key=lambda slot: slot.index)

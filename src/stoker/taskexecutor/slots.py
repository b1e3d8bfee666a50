"""The slots of one task executor, and the record of them that survives its restart.

A task executor that starts again under the same id offers the slots of its previous instance to
the jobs that held them. The record is a hint, not a promise: what was promised is known to the
resource manager and to the job masters. A record that is lost or unreadable makes a slot free, and
a job that no longer needs its slot declines it.
"""

import logging
from collections.abc import Container
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol

import msgspec

from stoker.core.errors import Conflict, NotFound
from stoker.core.failpoints import failpoint
from stoker.core.ids import AllocationId, JobId
from stoker.core.values import decode_json
from stoker.gateways.resourcemanager import SlotReport, SlotStatus
from stoker.osproc.atomic_file import write_atomically

log = logging.getLogger(__name__)


class SlotUse(Enum):
    RESERVED = "reserved"
    """Promised to a job; freed if the job master does not accept it in time."""
    ACTIVE = "active"
    RELEASING = "releasing"
    """Given up, but its task has not ended yet."""


@dataclass
class Allocation:
    id: AllocationId
    job_id: JobId
    index: int
    use: SlotUse
    since: float
    """Time at which `use` last changed."""


@dataclass
class SlotTable:
    size: int
    _allocations: dict[AllocationId, Allocation] = field(default_factory=dict)

    def reserve(self, job_id: JobId, allocation: AllocationId, index: int, now: float) -> bool:
        """Reserve a slot; False if the identical request was granted before."""
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
        """Mark a slot as accepted by its job master; NotFound if it was given up."""
        held = self._allocations.get(allocation)
        if held is None or held.use is SlotUse.RELEASING:
            raise NotFound(f"no slot is allocated as {allocation} here", allocation=allocation)
        if held.use is SlotUse.RESERVED:
            held.use, held.since = SlotUse.ACTIVE, now

    def deactivate(self, job_id: JobId, now: float) -> None:
        """Reserve the accepted slots of a job again, because its master is gone."""
        for held in self.of_job(job_id):
            if held.use is SlotUse.ACTIVE:
                held.use, held.since = SlotUse.RESERVED, now

    def release(self, allocation: AllocationId) -> None:
        """Give up a slot whose task has not ended yet; `free` follows when it has."""
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
        """Reserved slots that no job master accepted within the timeout."""
        return [
            held
            for held in self._allocations.values()
            if held.use is SlotUse.RESERVED and now - held.since >= timeout
        ]

    def surplus(
        self, job_id: JobId, counted: Container[AllocationId], now: float, timeout: float
    ) -> list[Allocation]:
        """Accepted slots that the job master does not count any more.

        Slots younger than the timeout do not count as surplus: the master may have counted before
        it accepted them.
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


class SavedSlot(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    job_id: JobId
    allocation: AllocationId


class SlotStore(Protocol):
    def save(self, slot: SavedSlot) -> None: ...

    def remove(self, index: int) -> None:
        """Remove the record of a slot, if there is one."""
        ...

    def load(self) -> list[SavedSlot]:
        """Records of the previous instance, ordered by index."""
        ...


class NoSlotStore:
    """Saves nothing: for a task executor whose id is never used again."""

    def save(self, slot: SavedSlot) -> None:
        return

    def remove(self, index: int) -> None:
        return

    def load(self) -> list[SavedSlot]:
        return []


class FileSlotStore:
    """One small file for each slot.

    The files are not synced: after a crash of the machine the jobs have long moved elsewhere.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def save(self, slot: SavedSlot) -> None:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file(slot.index), msgspec.json.encode(slot))
        except OSError as error:
            log.warning("slot %d would be free after a restart: %s", slot.index, error)
            # An older record of the slot must not survive.
            self.remove(slot.index)

    def remove(self, index: int) -> None:
        try:
            self._file(index).unlink(missing_ok=True)
        except OSError as error:
            log.warning("slot %d would be offered again after a restart: %s", index, error)

    def load(self) -> list[SavedSlot]:
        found = [self._read(file) for file in sorted(self._directory.glob("[0-9]*"))]
        return sorted((slot for slot in found if slot is not None), key=lambda slot: slot.index)

    def _file(self, index: int) -> Path:
        return self._directory / str(index)

    def _read(self, file: Path) -> SavedSlot | None:
        try:
            slot = decode_json(file.read_bytes(), SavedSlot)
            if file == self._file(slot.index):
                return slot
            reason = f"it describes slot {slot.index}"
        except (OSError, msgspec.DecodeError) as error:
            reason = str(error)
        log.warning("%s is unusable and is removed; its slot starts free: %s", file, reason)
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s could not be removed: %s", file, error)
        return None


class PersistentSlotTable(SlotTable):
    def __init__(self, size: int, store: SlotStore) -> None:
        super().__init__(size)
        self._store = store

    def reserve(self, job_id: JobId, allocation: AllocationId, index: int, now: float) -> bool:
        is_new = super().reserve(job_id, allocation, index, now)
        if is_new:
            failpoint("slots.before-keeping")
            self._store.save(SavedSlot(index=index, job_id=job_id, allocation=allocation))
            failpoint("slots.after-keeping")
        return is_new

    def release(self, allocation: AllocationId) -> None:
        self._remove_record(allocation)
        super().release(allocation)

    def free(self, allocation: AllocationId) -> bool:
        self._remove_record(allocation)
        return super().free(allocation)

    def restore(self, now: float) -> list[JobId]:
        """Reserve the recorded slots as if they were new; returns their jobs."""
        jobs = []
        for slot in self._store.load():
            if slot.index >= self.size:
                # The task executor was configured with fewer slots meanwhile.
                self._store.remove(slot.index)
                continue
            super().reserve(slot.job_id, slot.allocation, slot.index, now)
            jobs.append(slot.job_id)
        return jobs

    def remove_all_records(self) -> None:
        """Remove all records, because the jobs continue elsewhere."""
        for held in self.all():
            self._store.remove(held.index)

    def _remove_record(self, allocation: AllocationId) -> None:
        if (held := self.held(allocation)) is not None:
            self._store.remove(held.index)

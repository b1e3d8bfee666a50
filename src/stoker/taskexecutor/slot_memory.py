"""Which slots belong to which jobs, for the next life of a task executor with this id (TM-22).

A hint, not a promise: what was promised is known to the resource manager and the job masters. What
is lost or unreadable here begins as a free slot, and a job that needs its slot no more declines it.
"""

import logging
import os
from pathlib import Path
from typing import Protocol

import msgspec

from stoker.core.ids import AllocationId, JobId
from stoker.core.json_text import decode_json

log = logging.getLogger(__name__)


class KeptSlot(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    job_id: JobId
    allocation: AllocationId


class SlotMemory(Protocol):
    def keep(self, slot: KeptSlot) -> None: ...

    def forget(self, index: int) -> None:
        """That nothing was kept of it is fine."""
        ...

    def recall(self) -> list[KeptSlot]:
        """What a former life left, by index."""
        ...


class NoSlotMemory:
    """For a task executor whose id never comes again."""

    def keep(self, slot: KeptSlot) -> None:
        return

    def forget(self, index: int) -> None:
        return

    def recall(self) -> list[KeptSlot]:
        return []


class FileSlotMemory:
    """A small file for each slot. Not synced: after a crash of the machine nobody waits for it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def keep(self, slot: KeptSlot) -> None:
        unfinished = self._directory / f".{slot.index}"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(msgspec.json.encode(slot))
            os.replace(unfinished, self._file(slot.index))
        except OSError as error:
            log.warning("slot %d would be free after a restart: %s", slot.index, error)
            # An older word about it must not be taken for this one.
            self.forget(slot.index)

    def forget(self, index: int) -> None:
        try:
            self._file(index).unlink(missing_ok=True)
        except OSError as error:
            log.warning("slot %d would be offered again after a restart: %s", index, error)

    def recall(self) -> list[KeptSlot]:
        found = [self._read(file) for file in sorted(self._directory.glob("[0-9]*"))]
        return sorted((slot for slot in found if slot is not None), key=lambda slot: slot.index)

    def _file(self, index: int) -> Path:
        return self._directory / str(index)

    def _read(self, file: Path) -> KeptSlot | None:
        try:
            slot = decode_json(file.read_bytes(), KeptSlot)
            if file == self._file(slot.index):
                return slot
            reason = f"it tells of slot {slot.index}"
        except (OSError, msgspec.DecodeError) as error:
            reason = str(error)
        log.warning("%s is of no use and removed, its slot begins free: %s", file, reason)
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s could not be removed: %s", file, error)
        return None

"""The shared services of a cluster as one simulated process sees them.

The coordinator, the storage and the disk of its machine can be slow, fail or be cut off for this
process alone. After a freeze it sees the coordinator as it was before.
"""

import asyncio
import errno
import os
import random
from collections.abc import Iterable, Sequence
from contextvars import Context
from dataclasses import dataclass

from stoker.ha.coordinator import ConnectionState, Op
from stoker.ha.memory import MemoryCoordination, MemoryCoordinator
from stoker.storage.contract import storage_unavailable
from stoker.storage.memory import MemoryStorage
from stoker.taskexecutor.slots import SavedSlot


@dataclass
class Slowness:
    """No delay by default."""

    random: random.Random
    seconds: float = 0.0
    """Longest delay of an operation, in seconds."""

    def next_delay(self) -> float:
        return self.random.uniform(0, self.seconds) if self.seconds else 0.0

    async def wait(self) -> None:
        if self.seconds:
            await asyncio.sleep(self.next_delay())


_SPACING_SECONDS = 1e-6
"""Seconds between two operations of a session, which arrive in the order of sending."""


class ProcessCoordinator(MemoryCoordinator):
    """While frozen it sends nothing: its session may end unnoticed, and its reads go stale."""

    def __init__(
        self, coordination: MemoryCoordination, slowness: Slowness, *, auto_renewing: bool = False
    ) -> None:
        self._slowness = slowness
        self._arrival = 0.0
        self._frozen_at: float | None = None
        self.is_trusted = False
        """Accept calls after the end of the session: only the epoch then refuses a late write."""
        super().__init__(coordination, auto_renewing=auto_renewing)

    @property
    def last_contact(self) -> float:
        return super().last_contact if self._frozen_at is None else self._frozen_at

    def freeze(self) -> None:
        if self._frozen_at is not None or self.state is not ConnectionState.CONNECTED:
            return
        self._frozen_at = asyncio.get_running_loop().time()
        timeout = self._coordination.session_timeout
        if timeout is not None:
            # Outside the context of the frozen process, where the timer would be held back.
            asyncio.get_running_loop().call_later(
                timeout, self._end_if_still_frozen, self.session, context=Context()
            )

    def _end_if_still_frozen(self, session: str) -> None:
        if self._frozen_at is not None and session == self.session:
            self._coordination.expire(self, tell=False)

    def regain_contact(self) -> None:
        """Some time after waking up, learn what became of the session and of the values read."""
        if self._frozen_at is None:
            return
        self._frozen_at = None
        self.is_trusted = False
        if not self._is_live():
            self.lose_session()
        elif self.state is ConnectionState.CONNECTED:
            self.catch_up()

    def note_contact(self) -> None:
        if self._frozen_at is None:
            super().note_contact()
        else:
            self._contact_until = self._frozen_at

    def notice(self, touched: Iterable[str]) -> None:
        if self._frozen_at is None:
            super().notice(touched)

    def _is_live(self) -> bool:
        return self.is_trusted or super()._is_live()

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        versions = await super().commit(ops)
        await self._slowness.wait()
        return versions

    async def _turn(self) -> None:
        if self._slowness.seconds:
            now = asyncio.get_running_loop().time()
            self._arrival = max(now + self._slowness.next_delay(), self._arrival + _SPACING_SECONDS)
            await asyncio.sleep(self._arrival - now)
        await super()._turn()


class ProcessStorage(MemoryStorage):
    """Shares files and outages with the shared storage until the process is dead."""

    def __init__(self, shared: MemoryStorage, slowness: Slowness) -> None:
        super().__init__(shared.wall_clock)
        self._shared = shared
        self._slowness = slowness
        self.files = shared.files
        self.times = shared.times
        self.is_cut = False

    async def _turn(self, operation: str, path: str) -> None:
        await self._slowness.wait()
        await self._shared._turn(operation, path)
        if self.is_cut:
            raise storage_unavailable(
                operation, f"memory:///{path}", OSError(errno.ENXIO, os.strerror(errno.ENXIO))
            )


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

"""The shared storage as one simulated process sees it; it can fail for that process alone."""

import errno
import os

from stoker.storage.failures import storage_unavailable
from stoker.storage.memory import MemoryStorage
from stoker.testing.slowness import Slowness


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

"""Whether the cluster of a process has been shut down since the process began."""

import asyncio
import logging
from typing import Final

from stoker.core.errors import Unavailable
from stoker.ha import keys
from stoker.ha.contact import wait_for_contact
from stoker.ha.coordinator import Coordinator, Watch
from stoker.ha.stores.shutdowns import ShutdownRecord, Stage, understood

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.5


class ShutdownFollower:
    """Of a process, through all its sessions: one that was away learns of it when it is back."""

    def __init__(self) -> None:
        self._before: str | None = None
        self._begun = asyncio.Event()
        self.over = asyncio.Event()
        """This process ends, since its cluster has."""
        self.last: ShutdownRecord | None = None
        """The shutdown that ended the cluster."""

    async def concerns(self, record: ShutdownRecord) -> bool:
        """Whether it is not one that was over before this process began."""
        await self._begun.wait()
        return record.nonce != self._before

    async def run(self, coordinator: Coordinator) -> None:
        """Until the coordinator's session is over."""
        while True:
            await wait_for_contact(coordinator)
            try:
                await self._follow(coordinator)
            except Unavailable as error:
                log.info("whether the cluster was shut down cannot be read: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _follow(self, coordinator: Coordinator) -> None:
        if not self._begun.is_set():
            # An old answer would hide a shutdown that is over, and end this process later on.
            await coordinator.sync()
        watch = Watch()
        record = understood(await coordinator.read(keys.SHUTDOWN, watch=watch))
        if record is not None and record.stage is Stage.OVER:
            if not self._begun.is_set():
                self._before = record.nonce
            elif record.nonce != self._before and not self.over.is_set():
                log.info("the cluster was shut down as %s: this process ends", record.status)
                self.last = record
                self.over.set()
        self._begun.set()
        await watch.wait()

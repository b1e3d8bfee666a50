"""The newest epoch that a process knows of."""

import asyncio
import logging
from typing import Final

from stoker.core.errors import Unavailable
from stoker.ha import keys
from stoker.ha.contact import wait_for_contact
from stoker.ha.coordinator import Coordinator, Watch

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.5
NONE_YET: Final = -1


class EpochFollower:
    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self.known = NONE_YET
        """Never goes down, and stays while contact with the coordinator is lost."""

    async def run(self) -> None:
        """Until the coordinator's session is over."""
        while True:
            await wait_for_contact(self._coordinator)
            try:
                await self._follow()
            except Unavailable as error:
                log.info("the epoch cannot be read: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _follow(self) -> None:
        watch = Watch()
        found = await self._coordinator.read(keys.EPOCH, watch=watch)
        if found is not None:
            self.known = max(self.known, found.version)
        await watch.wait()

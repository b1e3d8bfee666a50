"""The provider of clusters whose task executors are started by their operators."""

import asyncio

from stoker.core.errors import Conflict
from stoker.core.ids import ResourceId
from stoker.resourcemanager.provider import Ended, Offer


class Standalone:
    """Starts nobody."""

    limit = 0
    offer: Offer | None = None

    def living(self) -> tuple[ResourceId, ...]:
        return ()

    async def start(self) -> ResourceId:
        raise Conflict(
            "task executors of this cluster are started by its operators; run stoker task-executor "
            "where there is room, or set resourcemanager.provider"
        )

    async def stop(self, resource_id: ResourceId) -> None:
        """What was not started here is not stopped here."""

    async def next_end(self) -> Ended:
        never: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        return await never

"""A resource manager lives exactly as long as its leadership."""

import asyncio
import random

import pytest

from stoker.core.errors import RecipientUnreachable
from stoker.core.ids import Ids
from stoker.gateways.resourcemanager import ResourceManagerGateway
from stoker.ha import keys
from stoker.ha.coordinator import Create
from stoker.ha.memory import MemoryCoordination
from stoker.ha.retrieval import LeaderRetrieval
from stoker.resourcemanager.run import lead_resource_manager
from stoker.resourcemanager.services import ResourceManagerServices
from stoker.rpc.memory import MemoryNetwork
from stoker.testing.leadership import seize_leadership
from stoker.testing.virtual_time import run_virtual, virtual_wall_clock


def test_a_resource_manager_answers_once_published_and_stops_with_its_leadership() -> None:
    """Its published token is that of the leadership (RM-01, RM-03)."""

    async def scenario() -> None:
        network, coordinator = MemoryNetwork(), MemoryCoordination().session()
        ids = Ids(random.Random(1))
        await coordinator.commit([Create(keys.ELECTION, b"master", ephemeral=True)])
        leadership = await seize_leadership(coordinator, component="resource_manager", ids=ids)
        services = ResourceManagerServices(
            rpc=network.service("master"), ids=ids, wall_clock=virtual_wall_clock()
        )
        retrieval = LeaderRetrieval(coordinator, "resource_manager")
        asking = network.service("test")
        async with asyncio.TaskGroup() as group:
            following = group.create_task(retrieval.run())
            leading = group.create_task(lead_resource_manager(leadership, services))
            found = await retrieval.wait_for_leader()
            assert found.token == leadership.token
            gateway = await asking.connect(found.address, ResourceManagerGateway, token=found.token)
            assert (await gateway.overview()).slots_total == 0
            leading.cancel()
            await asyncio.wait([leading])
            with pytest.raises(RecipientUnreachable):
                await gateway.overview()
            following.cancel()

    run_virtual(scenario)

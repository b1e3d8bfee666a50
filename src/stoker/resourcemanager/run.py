"""The lifetime of a resource manager: exactly that of its leadership."""

import asyncio

from stoker.ha.leadership import Leadership
from stoker.resourcemanager.endpoint import ResourceManager
from stoker.resourcemanager.services import ResourceManagerServices


async def lead_resource_manager(leadership: Leadership, services: ResourceManagerServices) -> None:
    """Run until cancelled; the address is published once the endpoint answers."""
    manager = ResourceManager(services, leadership.token)
    async with (
        manager.scope,
        manager.executor_beats,
        manager.master_beats,
        services.rpc.running(manager) as address,
    ):
        manager.begin()
        await leadership.publish(address)
        await asyncio.get_running_loop().create_future()

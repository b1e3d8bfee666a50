"""The lifetime of a resource manager: exactly that of its leadership."""

import asyncio
from collections.abc import Mapping

from stoker.ha.leadership import Leadership
from stoker.metrics.catalogue import CLUSTER_SLOTS, EXECUTORS
from stoker.metrics.registry import MetricGroup
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
        with services.metrics.group() as metrics:
            measure_slots(metrics, manager)
            await asyncio.get_running_loop().create_future()


def measure_slots(metrics: MetricGroup, manager: ResourceManager) -> None:
    """Show slots and task executors for as long as this manager leads."""

    def slots() -> Mapping[tuple[str, ...], float]:
        overview = manager.overview()
        used = overview.slots_total - overview.slots_free
        return {("free",): overview.slots_free, ("used",): used}

    def executors() -> Mapping[tuple[str, ...], float]:
        overview = manager.overview()
        return {
            ("registered",): overview.task_executors,
            ("draining",): manager.draining(),
            ("starting",): overview.starting,
        }

    metrics.gauges(CLUSTER_SLOTS, slots)
    metrics.gauges(EXECUTORS, executors)

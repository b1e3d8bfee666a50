"""Who is registered at the resource manager."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from stoker.gateways.jobmaster import JobMasterGateway
from stoker.gateways.resourcemanager import (
    JobMasterRegistration,
    TaskExecutorDetails,
    TaskExecutorRegistration,
)
from stoker.gateways.taskexecutor import TaskExecutorGateway
from stoker.resourcemanager.scaling import IdleExecutor
from stoker.resourcemanager.slots import SlotManager


@dataclass
class KnownJobMaster:
    registration: JobMasterRegistration
    gateway: JobMasterGateway


@dataclass
class KnownExecutor:
    registration: TaskExecutorRegistration
    gateway: TaskExecutorGateway
    heard_at: int
    watch: "asyncio.Task[None]"
    idle_since: float
    """Loop time since which none of its slots was seen in use."""

    def details(self, slots: SlotManager) -> TaskExecutorDetails:
        registration = self.registration
        total, free = slots.slots_of(registration.instance)
        return TaskExecutorDetails(
            resource_id=registration.resource_id,
            instance=registration.instance,
            address=registration.address,
            slots_total=total,
            slots_free=free,
            last_heartbeat=self.heard_at,
            host=registration.host,
            pid=registration.pid,
            cores=registration.cores,
            memory_bytes=registration.memory_bytes,
            engine=registration.engine,
            jobs=slots.jobs_on(registration.instance),
            on_demand=registration.on_demand,
            draining=slots.is_draining(registration.instance),
        )


def idle_ones(
    executors: Iterable[KnownExecutor], slots: SlotManager, now: float
) -> list[IdleExecutor]:
    """Only of those that a provider started: the others are not the cluster's to end (SM-11)."""
    idle = []
    for known in executors:
        instance = known.registration.instance
        total, free = slots.slots_of(instance)
        if free < total:
            known.idle_since = now
        elif known.registration.on_demand and not slots.is_draining(instance):
            idle.append(IdleExecutor(instance=instance, slots=total, since=known.idle_since))
    return idle

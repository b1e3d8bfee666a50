"""The task executors and job masters that are registered at the resource manager.

All job masters lead under the same election as the resource manager, so the epoch of a token tells
whether its holder belongs to the present leader; within one epoch the newest registration counts.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from stoker.core.ids import JobId
from stoker.core.values import FencingToken
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
class RegisteredJobMaster:
    registration: JobMasterRegistration
    gateway: JobMasterGateway


@dataclass
class RegisteredExecutor:
    registration: TaskExecutorRegistration
    gateway: TaskExecutorGateway
    last_heartbeat_at: int
    watch: "asyncio.Task[None]"
    idle_since: float
    """Loop time since which no slot was seen in use."""

    def details(self, slots: SlotManager) -> TaskExecutorDetails:
        registration = self.registration
        total, free = slots.slots_of(registration.instance)
        return TaskExecutorDetails(
            resource_id=registration.resource_id,
            instance=registration.instance,
            address=registration.address,
            slots_total=total,
            slots_free=free,
            last_heartbeat=self.last_heartbeat_at,
            host=registration.host,
            pid=registration.pid,
            cores=registration.cores,
            memory_bytes=registration.memory_bytes,
            engine=registration.engine,
            jobs=slots.jobs_on(registration.instance),
            on_demand=registration.on_demand,
            draining=slots.is_draining(registration.instance),
            metrics_url=registration.metrics_url,
        )


def idle_executors(
    executors: Iterable[RegisteredExecutor], slots: SlotManager, now: float
) -> list[IdleExecutor]:
    """Idle task executors that a provider started; the cluster must not stop any others."""
    idle = []
    for known in executors:
        instance = known.registration.instance
        total, free = slots.slots_of(instance)
        if free < total:
            known.idle_since = now
        elif known.registration.on_demand and not slots.is_draining(instance):
            idle.append(IdleExecutor(instance=instance, slots=total, since=known.idle_since))
    return idle


@dataclass
class JobLeaders:
    """The registered master of each job, or since when a job has none."""

    timeout: timedelta
    _leaders: dict[JobId, FencingToken] = field(default_factory=dict)
    _leaderless_since: dict[JobId, float] = field(default_factory=dict)

    def set_leader(self, job_id: JobId, token: FencingToken) -> None:
        """Record the leader of a job and cancel the timeout of the job."""
        self._leaders[job_id] = token
        self._leaderless_since.pop(job_id, None)

    def is_leader(self, job_id: JobId, token: FencingToken) -> bool:
        return self._leaders.get(job_id) == token

    def leader_lost(self, job_id: JobId, now: float) -> None:
        """Start the timeout of a job whose master is silent or has deregistered."""
        if self._leaders.pop(job_id, None) is not None:
            self._leaderless_since[job_id] = now

    def forget(self, job_id: JobId) -> None:
        self._leaders.pop(job_id, None)
        self._leaderless_since.pop(job_id, None)

    def expired(self, now: float) -> list[JobId]:
        """Jobs that have had no master for the timeout."""
        patience = self.timeout.total_seconds()
        return [job_id for job_id, lost in self._leaderless_since.items() if now - lost >= patience]

"""The task executors of a job: connections, returned slots, and when attempts may be replaced.

A task executor that is unreachable but not proven dead may still run its attempts. They may be
replaced only when the last lease that was acknowledged has certainly run out.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from stoker.core.errors import StokerError
from stoker.core.ids import AllocationId, AttemptId, InstanceId, JobId, ResourceId
from stoker.core.values import FencingToken
from stoker.gateways.leases import LeaseOptions
from stoker.gateways.taskexecutor import TaskExecutorGateway
from stoker.heartbeat.monitor import Liveness
from stoker.jobmaster.attempts import SlotHandle
from stoker.jobmaster.options import JobMasterOptions
from stoker.rpc.service import RpcService
from stoker.security.binding import is_loopback

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 1000


class ExecutorConnections:
    """Gateways to task executors, shared by all job masters of this process.

    An address names one instance of a task executor, so one handshake serves every job.
    """

    def __init__(self) -> None:
        self._gateways: OrderedDict[str, TaskExecutorGateway] = OrderedDict()

    async def connect(self, rpc: RpcService, address: str) -> TaskExecutorGateway:
        known = self._gateways.get(address)
        if known is not None:
            return known
        gateway = await rpc.connect(address, TaskExecutorGateway)
        self._gateways[address] = gateway
        if len(self._gateways) > MAX_CONNECTIONS:
            self._gateways.popitem(last=False)
        return gateway


@dataclass
class ConnectedExecutor:
    resource_id: ResourceId
    instance: InstanceId
    address: str
    gateway: TaskExecutorGateway
    deploying: set[AttemptId] = field(default_factory=set)
    """Attempts whose deployment is unanswered; heartbeats do not count them as missing."""


def is_proof_of_death(address: str, liveness: Liveness) -> bool:
    """Whether an unreachable address proves that the process is gone.

    Only a connection refused on this machine does. On the way to another machine, a network device
    may have refused it.
    """
    local = address.startswith("mem://") or is_loopback(urlsplit(address).hostname or "")
    return liveness is Liveness.UNREACHABLE and local


def wait_before_replacing(
    *,
    proven_dead: bool,
    acknowledged_at: float,
    now: float,
    options: JobMasterOptions,
    lease: LeaseOptions,
) -> timedelta:
    """Time from now until no attempt at the task executor can run any more."""
    if proven_dead:
        return options.death_grace
    over = acknowledged_at + (lease.duration + lease.margin).total_seconds()
    return timedelta(seconds=max(0.0, over - now))


Spawn = Callable[[str, Coroutine[Any, Any, None]], None]


class SlotReleases:
    """Returns slots to their task executors, in separate calls or as part of an answer."""

    def __init__(
        self,
        job_id: JobId,
        token: FencingToken,
        executors: Mapping[InstanceId, ConnectedExecutor],
        spawn: Spawn,
    ) -> None:
        self._job_id = job_id
        self._token = token
        self._executors = executors
        self._spawn = spawn
        self._collecting: InstanceId | None = None
        self._collected: list[AllocationId] = []

    @contextmanager
    def collecting_for(self, instance: InstanceId) -> Iterator[list[AllocationId]]:
        """Collect the slots that go back to this instance, within one turn of the event loop."""
        self._collecting, self._collected = instance, []
        try:
            yield self._collected
        finally:
            self._collecting = None

    def release(self, slots: Sequence[SlotHandle]) -> None:
        by_instance: dict[InstanceId, list[AllocationId]] = {}
        for slot in slots:
            by_instance.setdefault(slot.instance, []).append(slot.allocation)
        for instance, allocations in by_instance.items():
            if instance == self._collecting:
                self._collected += allocations
            elif (executor := self._executors.get(instance)) is not None:
                self._spawn(f"release at {instance}", self._call(executor, tuple(allocations)))

    async def _call(
        self, executor: ConnectedExecutor, allocations: tuple[AllocationId, ...]
    ) -> None:
        try:
            await executor.gateway.free_slots(
                self._token, self._job_id, allocations, "no longer needed"
            )
        except StokerError as error:
            # The task executor frees slots that the next heartbeat does not list.
            log.info("slots at %s could not be returned yet: %s", executor.resource_id, error)

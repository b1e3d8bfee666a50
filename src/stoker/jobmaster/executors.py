"""The task executors that a job master knows, and when one of them counts as gone.

A task executor that is unreachable but not proven dead may still run its attempts: only when the
last lease that was acknowledged has surely run out may they be replaced.
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

MAX_CONNECTIONS = 1000


class ExecutorConnections:
    """Those that any job's master of this process has shaken hands with.

    An address names one life of a task executor, so none of them need be greeted again.
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
    """Attempts whose deployment has not been answered: exempt from reconciliation (JM-11)."""


def is_proof_of_death(address: str, liveness: Liveness) -> bool:
    """A refused connection on this very machine means that the process is gone.

    From another machine it could be a network's answer as well, and proves nothing.
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
    """How long to wait from now until none of its attempts can run any more."""
    if proven_dead:
        return options.death_grace
    over = acknowledged_at + (lease.duration + lease.margin).total_seconds()
    return timedelta(seconds=max(0.0, over - now))


log = logging.getLogger(__name__)

Spawn = Callable[[str, Coroutine[Any, Any, None]], None]


class SlotReleases:
    """By calls of its own, or with the answer to the task executor that asks just now."""

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
        """Fills the list with what goes back to it meanwhile: within one turn of the loop."""
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
            # The task executor frees what the next heartbeat does not list.
            log.info("slots at %s not given back yet: %s", executor.resource_id, error)

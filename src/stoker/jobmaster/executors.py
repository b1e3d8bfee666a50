"""The task executors that a job master knows, and when one of them counts as gone.

A task executor that is unreachable but not proven dead may still run its attempts: only when the
last lease that was acknowledged has surely run out may they be replaced.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_address
from urllib.parse import urlsplit

from stoker.core.ids import AttemptId, InstanceId, ResourceId
from stoker.gateways.leases import LeaseOptions
from stoker.gateways.taskexecutor import TaskExecutorGateway
from stoker.heartbeat.monitor import Liveness
from stoker.jobmaster.options import JobMasterOptions
from stoker.rpc.service import RpcService

MOST_REACHED = 1000


class ReachedExecutors:
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
        if len(self._gateways) > MOST_REACHED:
            self._gateways.popitem(last=False)
        return gateway


@dataclass
class KnownExecutor:
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
    local = address.startswith("mem://") or _is_loopback(urlsplit(address).hostname or "")
    return liveness is Liveness.UNREACHABLE and local


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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

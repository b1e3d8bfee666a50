"""The task executors that a job master knows, and when one of them counts as gone.

A task executor that is unreachable but not proven dead may still run its attempts: only when the
last lease that was acknowledged has surely run out may they be replaced.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_address
from urllib.parse import urlsplit

from stoker.core.ids import AttemptId, InstanceId, ResourceId
from stoker.gateways.leases import LeaseOptions
from stoker.gateways.taskexecutor import TaskExecutorGateway
from stoker.heartbeat.monitor import Liveness
from stoker.jobmaster.options import JobMasterOptions


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

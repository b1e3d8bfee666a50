"""The services and settings that a task executor runs with."""

from dataclasses import dataclass, field

from stoker.core.ids import InstanceId, ResourceId
from stoker.gateways.leases import LeaseOptions
from stoker.ha.coordinator import Coordinator
from stoker.heartbeat.options import HeartbeatOptions
from stoker.metrics.registry import MetricGroup, unread_metrics
from stoker.rpc.options import RegistrationOptions
from stoker.rpc.service import RpcService
from stoker.taskexecutor.options import TaskExecutorOptions
from stoker.taskexecutor.slots import NoSlotStore, SlotStore
from stoker.taskexecutor.tasks import TaskServices


@dataclass(frozen=True, kw_only=True)
class TaskExecutorServices:
    rpc: RpcService
    coordinator: Coordinator
    tasks: TaskServices
    resource_id: ResourceId
    instance: InstanceId
    host: str = "localhost"
    pid: int = 0
    cores: int = 0
    memory_bytes: int = 0
    on_demand: bool = False
    """A provider started this process, and can start another one when jobs need it."""
    metrics: MetricGroup = field(default_factory=unread_metrics)
    metrics_url: str = ""
    """Where this process shows its metrics; empty if nowhere."""
    slot_store: SlotStore = field(default_factory=NoSlotStore)
    options: TaskExecutorOptions = field(default_factory=TaskExecutorOptions)
    heartbeat: HeartbeatOptions = field(default_factory=HeartbeatOptions)
    lease: LeaseOptions = field(default_factory=LeaseOptions)
    registration: RegistrationOptions = field(default_factory=RegistrationOptions)

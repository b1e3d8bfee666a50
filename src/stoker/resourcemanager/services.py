"""The services and settings that a resource manager runs with."""

from dataclasses import dataclass, field

from stoker.aio.clock import WallClock
from stoker.core.ids import Ids
from stoker.events.intake import EventIntake
from stoker.heartbeat.options import HeartbeatOptions
from stoker.metrics.registry import MetricGroup, unread_metrics
from stoker.resourcemanager.options import ResourceManagerOptions
from stoker.resourcemanager.provider import Provider, StandaloneProvider
from stoker.rpc.service import RpcService


@dataclass(frozen=True, kw_only=True)
class ResourceManagerServices:
    rpc: RpcService
    ids: Ids
    wall_clock: WallClock
    heartbeat: HeartbeatOptions = field(default_factory=HeartbeatOptions)
    options: ResourceManagerOptions = field(default_factory=ResourceManagerOptions)
    events: EventIntake = field(default_factory=EventIntake)
    """Where the leading parts of this process record events."""
    provider: Provider = field(default_factory=StandaloneProvider)
    metrics: MetricGroup = field(default_factory=unread_metrics)

"""The services and settings that a dispatcher runs with."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from stoker.aio.clock import WallClock
from stoker.blob.server import BlobServer
from stoker.core.errors import SavepointFailed
from stoker.core.ids import Ids
from stoker.dispatcher.options import DispatcherOptions, QueueOptions
from stoker.dispatcher.undriven_jobs import UndrivenJobs
from stoker.events.intake import EventIntake
from stoker.events.options import EventOptions
from stoker.events.settings import ReadSettings, no_settings
from stoker.gateways.job import StartJob
from stoker.ha.retrieval import LeaderRetrieval
from stoker.ha.stores.shutdowns import ShutdownFollower
from stoker.metrics.registry import MetricGroup, unread_metrics
from stoker.rpc.service import RpcService
from stoker.savepoints.locations import SavepointServices
from stoker.storage.contract import Storage

RepartitionState = Callable[[str, int], Awaitable[str]]
"""Copies the savepoint at a path with another number of partitions; returns the new path."""


async def cannot_repartition(path: str, partitions: int) -> str:
    raise SavepointFailed(f"this master has no Spark to repartition the state of {path} with")


@dataclass(frozen=True, kw_only=True)
class DispatcherServices:
    rpc: RpcService
    storage: Storage
    blobs: BlobServer
    start_job: StartJob
    resource_manager: LeaderRetrieval
    ids: Ids
    wall_clock: WallClock
    options: DispatcherOptions = field(default_factory=DispatcherOptions)
    queues: QueueOptions = field(default_factory=QueueOptions)
    savepoints: SavepointServices = field(default_factory=SavepointServices)
    repartition: RepartitionState = cannot_repartition
    events: EventIntake = field(default_factory=EventIntake)
    """Where the leading parts of this process record events."""
    event_log: EventOptions = field(default_factory=EventOptions)
    read_settings: ReadSettings = no_settings
    """The tokens and the configuration of this process, whose changes are events."""
    undriven_jobs: UndrivenJobs = field(default_factory=UndrivenJobs)
    metrics: MetricGroup = field(default_factory=unread_metrics)
    shutdowns: ShutdownFollower | None = None
    """Ends the process when the cluster has ended; None where the cluster cannot be ended."""

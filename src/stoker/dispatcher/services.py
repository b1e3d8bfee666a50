"""What a dispatcher is given."""

from dataclasses import dataclass, field

from stoker.aio.clock import WallClock
from stoker.blob.server import BlobServer
from stoker.core.ids import Ids
from stoker.dispatcher.options import DispatcherOptions, QueueOptions
from stoker.gateways.job import StartJob
from stoker.ha.retrieval import LeaderRetrieval
from stoker.rpc.service import RpcService
from stoker.savepoints.services import SavepointServices
from stoker.storage.contract import Storage


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

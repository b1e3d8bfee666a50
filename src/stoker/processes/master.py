"""The master process: REST for everyone, and the leading parts when it leads."""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from stoker import __version__
from stoker.aio.clock import system_wall_clock
from stoker.aio.scope import TaskScope
from stoker.blob.options import BlobOptions
from stoker.blob.server import BlobServer
from stoker.config.configuration import Configuration
from stoker.config.processes import ClusterOptions, MasterOptions, ProcessOptions
from stoker.core.errors import NoLeader
from stoker.core.ids import BlobKey, Ids, JobId, ResourceId
from stoker.dispatcher.options import DispatcherOptions
from stoker.gateways.dispatcher import DISPATCHER, DispatcherGateway
from stoker.gateways.leases import LeaseOptions
from stoker.ha.coordinator import Coordinator
from stoker.ha.publication import LeaderAddress
from stoker.ha.retrieval import LeaderRetrieval
from stoker.heartbeat.options import HeartbeatOptions
from stoker.jobmaster.options import JobMasterOptions
from stoker.processes.address_file import address_left_at
from stoker.processes.coordination import open_first_session, open_session
from stoker.processes.directories import directories_for, storage_url
from stoker.processes.master_parts import (
    REST_SERVER,
    MasterServices,
    PartOptions,
    contend_for_ever,
)
from stoker.processes.shutdown import shutdown_signals
from stoker.resourcemanager.options import ResourceManagerOptions
from stoker.rest.app import build_app
from stoker.rest.options import RestOptions
from stoker.rest.server import serving
from stoker.rest.services import RestServices
from stoker.rpc.grpc_transport import open_grpc
from stoker.rpc.options import RpcOptions
from stoker.rpc.service import RpcService
from stoker.security.binding import check_binding
from stoker.storage.open import open_storage

log = logging.getLogger(__name__)

ADDRESS_FILE = "master.json"


@dataclass(frozen=True, kw_only=True)
class RunningMaster:
    resource_id: ResourceId
    rest_url: str
    rpc_address: str


class DispatcherFinder:
    """The gateway to the leading dispatcher, kept for as long as it leads."""

    def __init__(self, rpc: RpcService, retrieval: LeaderRetrieval, *, timeout: timedelta) -> None:
        self._rpc = rpc
        self._retrieval = retrieval
        self._timeout = timeout
        self._known: tuple[LeaderAddress, DispatcherGateway] | None = None

    async def __call__(self) -> DispatcherGateway:
        leader = self._retrieval.leader
        if leader is None:
            raise NoLeader("no dispatcher leads at the moment; try again shortly")
        if self._known is None or self._known[0] != leader:
            gateway = await self._rpc.connect(
                leader.address, DispatcherGateway, token=leader.token, timeout=self._timeout
            )
            self._known = (leader, gateway)
        return self._known[1]


@dataclass(frozen=True)
class UploadedBlobs:
    """The blob server as the REST server sees it: files that are already on this disk."""

    server: BlobServer

    async def put(self, job_id: JobId, sha256: str, size: int, local_path: Path) -> BlobKey:
        return await self.server.put_file(job_id, local_path, sha256=sha256)

    async def delete_job(self, job_id: JobId) -> None:
        await self.server.delete_job(job_id)


async def run_master(configuration: Configuration) -> None:
    """Until SIGTERM or SIGINT; an error that ends the master is raised."""
    async with (
        shutdown_signals() as asked,
        running_master(configuration) as master,
        TaskScope("master process"),
    ):
        log.info("master %s answers at %s", master.resource_id, master.rest_url)
        await asked.wait()


@asynccontextmanager
async def running_master(configuration: Configuration) -> AsyncIterator[RunningMaster]:
    """Services first, in the order of their needs; then the parts; all closed in reverse."""
    ids = Ids()
    options = configuration.of(MasterOptions)
    resource_id = ResourceId(options.resource_id or ids.resource("master"))
    directories = directories_for(resource_id, configuration.of(ProcessOptions))
    check_binding(options.bind_host, "jobmanager.bind-host", authenticated=False)
    async with AsyncExitStack() as stack:
        rpc = await open_grpc(
            options.bind_host, options.rpc_port, configuration.of(RpcOptions), ids=ids
        )
        stack.push_async_callback(rpc.close)
        storage = open_storage(storage_url(configuration.of(ClusterOptions)))
        lookout = await open_first_session(configuration, ids, lasting=True)
        stack.push_async_callback(lookout.close)
        blobs = await stack.enter_async_context(
            BlobServer(storage, directories.work / "uploads", configuration.of(BlobOptions))
        )
        services = MasterServices(
            resource_id=resource_id,
            rpc=rpc,
            coordinator=await open_first_session(configuration, ids, lasting=False),
            storage=storage,
            blobs=blobs,
            ids=ids,
            wall_clock=system_wall_clock,
            options=_part_options(configuration),
        )
        url = await stack.enter_async_context(_rest(services, lookout, configuration))
        master = RunningMaster(resource_id=resource_id, rest_url=url, rpc_address=rpc.address)
        scope = await stack.enter_async_context(TaskScope("master"))
        open_next = partial(open_session, configuration, ids, lasting=False)
        scope.spawn("parts", contend_for_ever(services, url, open_next))
        record = {"rest_url": master.rest_url, "rpc_address": master.rpc_address}
        stack.enter_context(address_left_at(directories.work / ADDRESS_FILE, record))
        yield master


@asynccontextmanager
async def _rest(
    services: MasterServices, lookout: Coordinator, configuration: Configuration
) -> AsyncIterator[str]:
    """Answers from the first moment on and through every change of session or leader."""
    dispatcher = LeaderRetrieval(lookout, DISPATCHER)
    rest_leader = LeaderRetrieval(lookout, REST_SERVER)

    def leads() -> bool:
        leader = dispatcher.leader
        return leader is not None and leader.address.startswith(f"{services.rpc.address}/")

    def leader_url() -> str | None:
        return rest_leader.leader.address if rest_leader.leader else None

    options = configuration.of(RestOptions)
    # A long poll is answered at its own limit, and must not meet the limit of calls before.
    patience = configuration.of(RpcOptions).ask_timeout + options.max_wait
    app = build_app(
        RestServices(
            dispatcher=DispatcherFinder(services.rpc, dispatcher, timeout=patience),
            blobs=UploadedBlobs(services.blobs),
            leads=leads,
            leader_url=leader_url,
            options=options,
            version=__version__,
            ids=services.ids,
        )
    )
    async with TaskScope("rest") as scope, serving(app, options) as url:
        scope.spawn("dispatcher", dispatcher.run())
        scope.spawn("leader", rest_leader.run())
        yield url


def _part_options(configuration: Configuration) -> PartOptions:
    return PartOptions(
        heartbeat=configuration.of(HeartbeatOptions),
        lease=configuration.of(LeaseOptions),
        dispatcher=configuration.of(DispatcherOptions),
        resource_manager=configuration.of(ResourceManagerOptions),
        job_master=configuration.of(JobMasterOptions),
    )

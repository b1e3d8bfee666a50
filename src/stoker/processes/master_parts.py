"""The leading parts of a master, wired together for the master process and for simulations.

All parts share one session and one election, so that a process leads with all of them or with none.
When the session is over, they end together and start again in a new session. When a part fails, or
ends although the process leads, they end together with the process: no other process would lead
that part in its place.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TypeVar

from stoker.aio.clock import WallClock
from stoker.aio.retry import Backoff, retry
from stoker.aio.scope import TaskScope
from stoker.blob.server import BlobServer
from stoker.core.errors import SessionExpired, Unavailable
from stoker.core.ids import Ids, ResourceId
from stoker.dispatcher.options import DispatcherOptions, QueueOptions
from stoker.dispatcher.run import lead_dispatcher
from stoker.dispatcher.services import DispatcherServices, RepartitionState, cannot_repartition
from stoker.dispatcher.undriven_jobs import UndrivenJobs
from stoker.events.intake import EventIntake
from stoker.events.options import EventOptions
from stoker.events.settings import ReadSettings, no_settings
from stoker.gateways.dispatcher import DISPATCHER
from stoker.gateways.leases import LeaseOptions
from stoker.gateways.resourcemanager import RESOURCE_MANAGER
from stoker.ha.coordinator import Coordinator
from stoker.ha.election import LeadComponent, LeaderElection
from stoker.ha.follow import EpochFollower
from stoker.ha.leadership import Leadership
from stoker.ha.masters import MasterDirectory
from stoker.ha.retrieval import LeaderRetrieval
from stoker.ha.stores.shutdowns import ShutdownFollower
from stoker.heartbeat.options import HeartbeatOptions
from stoker.jobmaster.enrichers import load_enrichers
from stoker.jobmaster.job import JobMasterServices
from stoker.jobmaster.options import JobMasterOptions
from stoker.jobmaster.run import running_job
from stoker.metrics.catalogue import EPOCH, LEADING
from stoker.metrics.registry import MetricGroup, unread_metrics
from stoker.processes.failsafe import FailsafeMaster
from stoker.resourcemanager.options import ResourceManagerOptions
from stoker.resourcemanager.provider import Provider, StandaloneProvider
from stoker.resourcemanager.run import lead_resource_manager
from stoker.resourcemanager.services import ResourceManagerServices
from stoker.rpc.service import RpcService
from stoker.savepoints.locations import OpenStorage, SavepointServices
from stoker.savepoints.options import SavepointOptions
from stoker.storage.contract import Storage
from stoker.storage.open import open_place

log = logging.getLogger(__name__)

REST_SERVER = "rest_server"
SESSION_BACKOFF = Backoff(initial=timedelta(seconds=0.2), maximum=timedelta(seconds=5))

OpenSession = Callable[[], Awaitable[Coordinator]]
Services = TypeVar("Services")


@dataclass(frozen=True, kw_only=True)
class PartOptions:
    heartbeat: HeartbeatOptions = field(default_factory=HeartbeatOptions)
    lease: LeaseOptions = field(default_factory=LeaseOptions)
    dispatcher: DispatcherOptions = field(default_factory=DispatcherOptions)
    queues: QueueOptions = field(default_factory=QueueOptions)
    resource_manager: ResourceManagerOptions = field(default_factory=ResourceManagerOptions)
    job_master: JobMasterOptions = field(default_factory=JobMasterOptions)
    savepoints: SavepointOptions = field(default_factory=SavepointOptions)
    events: EventOptions = field(default_factory=EventOptions)


@dataclass(frozen=True, kw_only=True)
class MasterServices:
    resource_id: ResourceId
    rpc: RpcService
    coordinator: Coordinator
    storage: Storage
    blobs: BlobServer
    ids: Ids
    wall_clock: WallClock
    options: PartOptions = field(default_factory=PartOptions)
    open_storage: OpenStorage = open_place
    """Access to the storages of savepoints."""
    provider: Provider = field(default_factory=StandaloneProvider)
    repartition: RepartitionState = cannot_repartition
    metrics: MetricGroup = field(default_factory=unread_metrics)
    """The group of the process."""
    read_settings: ReadSettings = no_settings
    """The tokens and the configuration of this process."""
    shutdowns: ShutdownFollower | None = None
    """Run by the owner of the process; None where the cluster cannot be shut down."""


@dataclass(frozen=True, kw_only=True)
class RestAddresses:
    """Where the REST server of a master answers."""

    url: str
    socket: str = ""
    """URL of a Unix domain socket, for standbys; empty if they may be on other machines."""


class MasterParts:
    """One election, shared by the dispatcher, the resource manager and every job master."""

    def __init__(self, services: MasterServices, rest: RestAddresses | None = None) -> None:
        self._services = services
        self._rest = rest
        self.election = LeaderElection(
            services.coordinator, process=services.resource_id, ids=services.ids
        )
        self.dispatcher = LeaderRetrieval(services.coordinator, DISPATCHER)
        self.resource_manager = LeaderRetrieval(services.coordinator, RESOURCE_MANAGER)
        self._masters = MasterDirectory(services.coordinator)
        self._epochs = EpochFollower(services.coordinator)
        self._undriven_jobs = UndrivenJobs()
        self._events = EventIntake()
        self._failsafe = FailsafeMaster(
            services.resource_id,
            rpc=services.rpc,
            coordinator=services.coordinator,
            masters=self._masters,
            leads=lambda: self.election.is_leading,
            epoch_led=lambda: self.election.last_epoch,
            epoch_known=self._epoch_known,
            is_undriven=self._undriven_jobs.includes,
        )
        services.metrics.gauge(LEADING, lambda: float(self.election.is_leading))
        services.metrics.gauge(EPOCH, self._epoch_known)

    def _epoch_known(self) -> int:
        # The follower may lag behind an election that was just won.
        return max(self._epochs.known, self.election.last_epoch or 0)

    async def run(self) -> None:
        """Run until cancelled; raises when the session ends or when a part ends by itself."""
        services = self._services
        async with TaskScope("master") as scope, services.rpc.running(self._failsafe):
            scope.spawn("masters", self._masters.run())
            scope.spawn("announcement", self._announce())
            scope.spawn("epochs", self._epochs.run())
            scope.spawn("dispatcher retrieval", self.dispatcher.run())
            scope.spawn("resource manager retrieval", self.resource_manager.run())
            scope.spawn("resource manager", self._contend_as_resource_manager())
            scope.spawn("dispatcher", self._contend_as_dispatcher())
            if self._rest is not None:
                scope.spawn("rest", self.election.run_while_leading(REST_SERVER, self._lead_rest))
            scope.spawn("election", self.election.run())
            await asyncio.get_running_loop().create_future()

    async def _lead_rest(self, leadership: Leadership) -> None:
        """Clients and standbys find the leader's REST server by its published address."""
        assert self._rest is not None
        await leadership.publish(self._rest.url, self._rest.socket)
        await asyncio.get_running_loop().create_future()

    async def _announce(self) -> None:
        services = self._services
        await self._masters.announce(services.resource_id, services.rpc.address)

    async def _contend_as_resource_manager(self) -> None:
        services = self._services
        await self.election.run_while_leading(
            RESOURCE_MANAGER,
            _required_while_leading(
                lead_resource_manager,
                services=ResourceManagerServices(
                    rpc=services.rpc,
                    ids=services.ids,
                    wall_clock=services.wall_clock,
                    heartbeat=services.options.heartbeat,
                    options=services.options.resource_manager,
                    provider=services.provider,
                    metrics=services.metrics,
                    events=self._events,
                ),
            ),
        )

    async def _contend_as_dispatcher(self) -> None:
        services = self._services
        savepoints = SavepointServices(
            options=services.options.savepoints, open_storage=services.open_storage
        )
        start_job = partial(
            running_job,
            services=JobMasterServices(
                rpc=services.rpc,
                ids=services.ids,
                wall_clock=services.wall_clock,
                resource_manager=self.resource_manager,
                heartbeat=services.options.heartbeat,
                options=services.options.job_master,
                lease=services.options.lease,
                savepoints=savepoints,
                enrichers=load_enrichers(
                    services.options.job_master.failure_enrichers,
                    services.options.job_master.enricher_timeout,
                ),
                metrics=services.metrics,
            ),
            election=self.election,
            storage=services.storage,
        )
        await self.election.run_while_leading(
            DISPATCHER,
            _required_while_leading(
                lead_dispatcher,
                services=DispatcherServices(
                    rpc=services.rpc,
                    storage=services.storage,
                    blobs=services.blobs,
                    start_job=start_job,
                    resource_manager=self.resource_manager,
                    ids=services.ids,
                    wall_clock=services.wall_clock,
                    options=services.options.dispatcher,
                    savepoints=savepoints,
                    queues=services.options.queues,
                    repartition=services.repartition,
                    events=self._events,
                    event_log=services.options.events,
                    read_settings=services.read_settings,
                    undriven_jobs=self._undriven_jobs,
                    metrics=services.metrics,
                    shutdowns=services.shutdowns,
                ),
            ),
        )


def _required_while_leading(
    lead: Callable[[Leadership, Services], Awaitable[None]], services: Services
) -> LeadComponent:
    """Raise when the part ends by itself, so that it ends the process."""

    async def lead_to_the_end(leadership: Leadership) -> None:
        await lead(leadership, services)
        if not leadership.grant.is_revoked:
            raise RuntimeError(f"{leadership.component} has ended although it still leads")

    return lead_to_the_end


async def take_part_in_elections(
    services: MasterServices, rest: RestAddresses, open_session: OpenSession
) -> None:
    """When a session is over, the parts that depend on it end and start again in a new one."""
    while True:
        try:
            await MasterParts(services, rest).run()
        except SessionExpired as error:
            log.warning("%s contends again in a new session: %s", services.resource_id, error)
        finally:
            await services.coordinator.close()
        session = await retry(open_session, on=Unavailable, backoff=SESSION_BACKOFF)
        services = replace(services, coordinator=session)

"""The master process: REST for clients at all times, and the leading parts while it leads.

It has two sessions with the coordinator. The REST server follows the leader through the observer
session, which renews itself, so that REST answers through every loss of contact. The other session
owns the ephemeral keys by which this process contends; when it ends, the leading parts end with it
and start again in the next one.

Everything is opened in the order of its dependencies and closed in reverse. Closing has a time
limit, because a process that hangs at its end would keep its port and its locks.
"""

import hashlib
import logging
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import stoker.processes.grpc_without_forks  # noqa: F401  (before all that imports gRPC)
from stoker import __version__
from stoker.aio.clock import system_wall_clock
from stoker.aio.log_context import bind_log_fields
from stoker.aio.scope import TaskScope
from stoker.blob.options import BlobOptions
from stoker.blob.server import BlobServer
from stoker.config.configuration import Configuration
from stoker.config.processes import ClusterOptions, MasterOptions, ProcessOptions
from stoker.core.ids import Ids, ResourceId
from stoker.dispatcher.options import DispatcherOptions, QueueOptions
from stoker.events.options import EventOptions
from stoker.events.settings import ReadSettings, Settings
from stoker.gateways.dispatcher import DISPATCHER
from stoker.gateways.inspection import INSPECTION
from stoker.gateways.leases import LeaseOptions
from stoker.ha.coordinator import Coordinator
from stoker.ha.retrieval import LeaderRetrieval
from stoker.ha.stores.shutdowns import ShutdownFollower
from stoker.heartbeat.options import HeartbeatOptions
from stoker.jobmaster.options import JobMasterOptions
from stoker.metrics.options import MetricOptions
from stoker.metrics.registry import MetricRegistry
from stoker.osproc.unix_socket import url_of_socket
from stoker.processes.announcement import (
    MASTER_FILE,
    Announce,
    Announcement,
    address_file,
    ignore_announcement,
)
from stoker.processes.directories import storage_url
from stoker.processes.garbage import collect_garbage_rarely, collect_when_idle
from stoker.processes.inspection.endpoint import Inspection, inspection_at
from stoker.processes.local.provider import open_provider
from stoker.processes.master_parts import (
    REST_SERVER,
    MasterServices,
    PartOptions,
    RestAddresses,
    take_part_in_elections,
)
from stoker.processes.opening import (
    may_forward_to,
    open_first_session,
    open_process_resources,
    open_session,
    token_file,
    trust_among_masters,
)
from stoker.processes.repartitioning import repartitioned_savepoint
from stoker.processes.shutdown import (
    BeginToEnd,
    ending_in_time,
    exit_code_of,
    first_of,
    shutdown_signals,
    without_time_limit,
)
from stoker.processes.uncaught import uncaught_errors
from stoker.resourcemanager.options import ResourceManagerOptions
from stoker.rest.app import build_app
from stoker.rest.control.metric_fetcher import MetricFetcher
from stoker.rest.http.page_access import PageSessions
from stoker.rest.options import RestOptions
from stoker.rest.programs.store import ProgramStore, sweep_repeatedly
from stoker.rest.requests.operations import Operations
from stoker.rest.requests.uploads import remove_leftovers
from stoker.rest.server import BIND_PORT, serving
from stoker.rest.services import DispatcherFinder, RestServices
from stoker.rpc.options import RpcOptions
from stoker.savepoints.options import SavepointOptions
from stoker.savepoints.places import Places, foreign_places
from stoker.security.audit import AuditLog, audit_file
from stoker.security.binding import check_token_transport, is_loopback
from stoker.security.material import rest_material
from stoker.security.options import AuditOptions, RestSecurityOptions, SubmissionLimitOptions
from stoker.security.owners import local_user
from stoker.security.token_changes import SEEN_FILE, TokenChangeRecorder
from stoker.security.tokens import TokenFile

log = logging.getLogger(__name__)

RPC_ADDRESS = "jobmanager.rpc.address"
RPC_PORT = "jobmanager.rpc.port"
REST_ADDRESS = "rest.address"
_OLDEST_REQUEST_SECONDS = 24 * 60 * 60.0
"""No request is handled for so long."""
_OF_ONE_PROCESS = frozenset(
    {
        RPC_ADDRESS,
        RPC_PORT,
        REST_ADDRESS,
        BIND_PORT,
        "jobmanager.bind-host",
        "jobmanager.resource-id",
        "process.log-dir",
        "process.working-dir",
        "rest.bind-address",
        "rest.socket",
    }
)
"""Options that masters of one cluster usually set differently."""


@dataclass(frozen=True, kw_only=True)
class RunningMaster:
    resource_id: ResourceId
    rest_url: str
    rpc_address: str
    shutdowns: ShutdownFollower


async def run_master(configuration: Configuration, announce: Announce = ignore_announcement) -> int:
    """Run until SIGTERM, SIGINT, or the end of the cluster, whose status sets the exit code.

    An error that ends the master is raised.
    """
    bind_log_fields(component="master")
    limit = configuration.of(MasterOptions).shutdown_timeout
    handling = configuration.of(ProcessOptions).uncaught_exceptions
    with ending_in_time(limit) as begin_to_end:
        async with (
            shutdown_signals() as asked,
            uncaught_errors(handling) as uncaught,
            running_master(configuration, begin_to_end) as master,
            TaskScope("master process") as scope,
        ):
            scope.spawn("uncaught errors", uncaught.raise_first())
            log.info("master %s answers at %s", master.resource_id, master.rest_url)
            announce(Announcement(id=master.resource_id, address=master.rest_url))
            collect_garbage_rarely()
            scope.spawn("garbage", collect_when_idle())
            await first_of(asked, master.shutdowns.over)
            log.info("master %s was asked to end", master.resource_id)
    over = master.shutdowns.last
    return 0 if over is None else exit_code_of(over.status)


@asynccontextmanager
async def running_master(
    configuration: Configuration, begin_to_end: BeginToEnd = without_time_limit
) -> AsyncIterator[RunningMaster]:
    """Closes everything in reverse order, also when the start fails midway."""
    async with AsyncExitStack() as stack:
        try:
            yield await _open_services(stack, configuration)
        finally:
            begin_to_end()


async def _open_services(stack: AsyncExitStack, configuration: Configuration) -> RunningMaster:
    """Start the services in the order of their dependencies, then the parts that use them."""
    ids = Ids()
    shutdowns = ShutdownFollower()
    options = configuration.of(MasterOptions)
    resources = await open_process_resources(
        stack,
        configuration,
        options,
        ids=ids,
        kind="master",
        bind_host_key="jobmanager.bind-host",
        host_key=RPC_ADDRESS,
        is_over=shutdowns.over.is_set,
    )
    resource_id, directories = resources.resource_id, resources.directories
    rpc, storage = resources.rpc, resources.storage
    metrics = resources.metrics.process
    observer = await open_first_session(
        configuration, ids, auto_renewing=True, metrics=metrics.group(session="observer")
    )
    stack.push_async_callback(observer.close)
    blobs = await stack.enter_async_context(
        BlobServer(storage, directories.work / "uploads", configuration.of(BlobOptions))
    )
    contending = metrics.group(session="contender")
    session = await open_first_session(configuration, ids, auto_renewing=False, metrics=contending)
    stack.push_async_callback(session.close)
    places = _places(configuration)
    services = MasterServices(
        resource_id=resource_id,
        rpc=rpc,
        coordinator=session,
        storage=storage,
        blobs=blobs,
        ids=ids,
        wall_clock=system_wall_clock,
        options=part_options(configuration),
        open_storage=places.open,
        provider=await stack.enter_async_context(open_provider(configuration, directories, ids)),
        metrics=metrics,
        shutdowns=shutdowns,
        repartition=partial(repartitioned_savepoint, open_storage=places.open),
        read_settings=_settings_of(configuration),
    )
    await stack.enter_async_context(rpc.running(Inspection(directories.logs, resources.metrics)))
    auditing = configuration.of(AuditOptions)
    # The directory may be a link with a plain name, which ends with this process.
    audit = AuditLog(audit_file(auditing, directories.work.resolve().parent), auditing, resource_id)
    url = await stack.enter_async_context(
        _rest(services, observer, configuration, places, audit, resources.metrics, directories.work)
    )
    scope = await stack.enter_async_context(TaskScope("master"))
    open_next = partial(open_session, configuration, ids, auto_renewing=False, metrics=contending)
    scope.spawn("shutdown", shutdowns.run(observer))
    scope.spawn(
        "parts", take_part_in_elections(services, _addresses(configuration, url), open_next)
    )
    record = {"rest_url": url, "rpc_address": rpc.address}
    stack.enter_context(address_file(directories.work / MASTER_FILE, record))
    return RunningMaster(
        resource_id=resource_id, rest_url=url, rpc_address=rpc.address, shutdowns=shutdowns
    )


@asynccontextmanager
async def _rest(
    services: MasterServices,
    observer: Coordinator,
    configuration: Configuration,
    places: Places,
    audit: AuditLog,
    metrics: MetricRegistry,
    work: Path,
) -> AsyncIterator[str]:
    """The REST server answers from the start, through every change of session or leader."""
    dispatcher = LeaderRetrieval(observer, DISPATCHER)
    rest_leader = LeaderRetrieval(observer, REST_SERVER)

    def leads() -> bool:
        leader = dispatcher.leader
        return leader is not None and leader.address.startswith(f"{services.rpc.address}/")

    def forwarding_proof() -> str | None:
        # Only processes of the cluster can read the leader's token at the coordinator. It is the
        # fence of the leader's writes, so what crosses the network is a digest of it.
        leader = rest_leader.leader
        if leader is None:
            return None
        return hashlib.sha256(f"forwarding {leader.token.session}".encode()).hexdigest()

    options = _with_upload_directory(configuration.of(RestOptions), work)
    security = configuration.of(RestSecurityOptions)
    tokens = token_file(security)
    page_sessions = PageSessions()
    if tokens is not None:
        check_token_transport(
            options.bind_address,
            "rest.bind-address",
            is_protected=security.tls or security.allow_plain_tokens,
        )
    may_forward = partial(may_forward_to, security)

    def leader_url() -> str | None:
        leader = rest_leader.leader
        return leader.address if leader and may_forward(leader.address) else None

    def epoch() -> int | None:
        leader = rest_leader.leader
        return leader.token.epoch if leader else None

    def forwarding_url() -> str | None:
        # Whoever took the port of a leader that has just died would get the tokens of clients.
        leader = rest_leader.leader
        return leader.socket if leader and leader.socket else leader_url()

    # The call limit must be longer than that of a long poll, which ends at its own limit.
    patience = configuration.of(RpcOptions).ask_timeout + options.max_wait
    programs = ProgramStore(services.storage, services.ids)
    rpc_host, rpc_port = _host_and_port(services.rpc.address)
    bound = {RPC_ADDRESS: rpc_host, RPC_PORT: rpc_port}
    shown = configuration.with_values(bound).redacted()
    app = build_app(
        RestServices(
            dispatcher=DispatcherFinder(services.rpc, dispatcher, timeout=patience),
            blobs=services.blobs,
            leads=leads,
            leader_url=leader_url,
            epoch=epoch,
            forwarding_url=forwarding_url,
            forwarding_proof=forwarding_proof,
            options=options,
            version=__version__,
            ids=services.ids,
            tokens=tokens,
            page_sessions=page_sessions,
            roles_of_certificates=security.roles_of_certificates(),
            submission_limits=configuration.of(SubmissionLimitOptions).by_role(),
            local_user=local_user(),
            audit=audit,
            trust=trust_among_masters(security),
            configuration=shown,
            inspection=await inspection_at(services.rpc, f"{services.rpc.address}/{INSPECTION}"),
            process_at=partial(inspection_at, services.rpc),
            programs=programs if options.submit_enabled else None,
            savepoints=configuration.of(SavepointOptions),
            places=places,
            operations=Operations(options.operation_store_duration),
            metrics=metrics,
            fetcher=MetricFetcher(configuration.of(MetricOptions).fetcher_interval),
        )
    )
    server = serving(
        app,
        options,
        authenticated=tokens is not None or security.mutual,
        tls=rest_material(security),
        asks_for_certificates=security.mutual,
    )
    async with TaskScope("rest") as scope, server as url:
        # Nobody can have asked yet: the port may have been drawn, and is published later.
        rest_host, rest_port = _host_and_port(url)
        bound |= {REST_ADDRESS: rest_host, BIND_PORT: rest_port}
        shown.update(configuration.with_values(bound).redacted())
        scope.spawn("dispatcher", dispatcher.run())
        scope.spawn("leader", rest_leader.run())
        if tokens is not None:
            scope.spawn("key of page sessions", page_sessions.load(services.storage))
        if security.tokens is not None:
            seen = audit.file.with_name(SEEN_FILE)
            changes = TokenChangeRecorder(
                TokenFile(security.tokens.expanduser()), audit, seen, system_wall_clock
            )
            scope.spawn("token changes", changes.run())
        sweeping = configuration.of(DispatcherOptions)
        scope.spawn(
            "programs",
            sweep_repeatedly(
                programs,
                leads,
                interval=sweeping.orphans_sweep_interval,
                max_age=sweeping.orphans_max_age,
            ),
        )
        yield url


def _with_upload_directory(options: RestOptions, work: Path) -> RestOptions:
    """With a directory for the files of requests, without those that a killed master has left."""
    now = time.time()
    if options.upload_directory is None:
        options = replace(options, upload_directory=work / "requests")
        # Nobody else uses it.
        before = now
    else:
        before = now - _OLDEST_REQUEST_SECONDS
    assert options.upload_directory is not None
    remove_leftovers(options.upload_directory, before=before)
    return options


def _addresses(configuration: Configuration, url: str) -> RestAddresses:
    options = configuration.of(RestOptions)
    # Masters on other machines cannot reach a loopback address, so all are on this one.
    if options.socket is None or not is_loopback(urlsplit(url).hostname or ""):
        return RestAddresses(url=url)
    return RestAddresses(url=url, socket=url_of_socket(options.socket.absolute()))


def _host_and_port(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.hostname or "", str(parts.port)


def _places(configuration: Configuration) -> Places:
    """The storages that requests may name, and those of the configuration."""
    options = configuration.of(SavepointOptions)
    storage = storage_url(configuration.of(ClusterOptions))
    directories = (storage, options.savepoint_directory, options.retained_directory)
    return foreign_places((each for each in directories if each), options.allowed_schemes)


def _settings_of(configuration: Configuration) -> ReadSettings:
    """The settings whose changes are told; not the addresses, which differ with each process."""
    options = {
        key: text for key, text in configuration.redacted().items() if key not in _OF_ONE_PROCESS
    }
    tokens = token_file(configuration.of(RestSecurityOptions))

    def read() -> Settings:
        known = () if tokens is None else tokens.tokens
        return Settings(
            tokens={token.id: f"{token.name} ({token.role})" for token in known},
            configuration=options,
        )

    return read


def part_options(configuration: Configuration) -> PartOptions:
    return PartOptions(
        heartbeat=configuration.of(HeartbeatOptions),
        lease=configuration.of(LeaseOptions),
        dispatcher=configuration.of(DispatcherOptions),
        queues=configuration.of(QueueOptions),
        resource_manager=configuration.of(ResourceManagerOptions),
        job_master=configuration.of(JobMasterOptions),
        savepoints=configuration.of(SavepointOptions),
        events=configuration.of(EventOptions),
    )

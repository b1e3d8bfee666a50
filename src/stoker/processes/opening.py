"""Opens what every process of a cluster needs: directories, RPC, storage, coordinator.

The order matters. Credentials are checked first, before anything listens. The directories come
next, because everything after them may write there. The coordinator comes last: once its session is
open, other processes may notice this one.
"""

import functools
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from stoker import __version__
from stoker.aio.scope import TaskScope
from stoker.config.configuration import Configuration
from stoker.config.processes import ClusterOptions, ProcessOptions
from stoker.core.errors import StartupFailed, Unavailable
from stoker.core.ids import Ids, ResourceId
from stoker.gateways.leases import LeaseOptions
from stoker.ha.coordinator import Coordinator
from stoker.ha.measured import MeasuredCoordinator
from stoker.ha.open import open_coordinator
from stoker.ha.zookeeper.access import check_ensemble_access
from stoker.ha.zookeeper.location import read_location
from stoker.ha.zookeeper.options import ZooKeeperOptions
from stoker.metrics.loop_lag import measure_loop_lag
from stoker.metrics.options import MetricOptions
from stoker.metrics.process import measure_process
from stoker.metrics.registry import MetricGroup, MetricRegistry
from stoker.processes.directories import (
    Directories,
    claim_cluster_directories,
    coordinator_url,
    directories_for,
    secret_file,
    storage_url,
)
from stoker.rpc.grpc_transport import GrpcCredentials, GrpcRpcService, credentials_from, open_grpc
from stoker.rpc.options import RpcOptions
from stoker.security.binding import advertised_host, check_binding, is_loopback
from stoker.security.cluster_secret import ClusterSecret, read_or_make_secret
from stoker.security.material import client_context, internal_material
from stoker.security.options import InternalSecurityOptions, RestSecurityOptions
from stoker.security.private_files import check_private_file
from stoker.security.tokens import TokenFile
from stoker.storage.contract import Storage
from stoker.storage.measured import MeasuredStorage
from stoker.storage.open import open_storage

log = logging.getLogger(__name__)


async def open_session(
    configuration: Configuration, ids: Ids, *, auto_renewing: bool, metrics: MetricGroup
) -> Coordinator:
    """Open a session with the configured coordinator; Unavailable when it does not answer."""
    session = await open_coordinator(
        coordinator_url(configuration.of(ClusterOptions)),
        ids=ids,
        auto_renewing=auto_renewing,
        options=configuration.of(ZooKeeperOptions),
    )
    try:
        configuration.of(LeaseOptions).check_session_timeout(session.session_timeout)
    except BaseException:
        await session.close()
        raise
    return MeasuredCoordinator(session, metrics)


async def open_first_session(
    configuration: Configuration, ids: Ids, *, auto_renewing: bool, metrics: MetricGroup
) -> Coordinator:
    """Like `open_session`, for the start of a process, which cannot start without a coordinator."""
    try:
        return await open_session(configuration, ids, auto_renewing=auto_renewing, metrics=metrics)
    except Unavailable as error:
        url = coordinator_url(configuration.of(ClusterOptions))
        raise StartupFailed(
            f"the coordinator {url} cannot be reached: {error}; is it running, and is "
            "high-availability right?"
        ) from error


def rpc_credentials(configuration: Configuration, host: str, key: str) -> GrpcCredentials | None:
    """None without TLS; InvalidOption when other machines could call without authentication."""
    material = internal_material(configuration.of(InternalSecurityOptions))
    check_binding(host, key, authenticated=material is not None)
    return credentials_from(material)


def _cluster_secret(configuration: Configuration) -> ClusterSecret:
    """Processes on one machine know each other by it, if not by mutual TLS."""
    options = configuration.of(ClusterOptions)
    path = secret_file(options, configuration.of(InternalSecurityOptions))
    path.parent.mkdir(parents=True, exist_ok=True)
    return read_or_make_secret(path)


def token_file(options: RestSecurityOptions) -> TokenFile | None:
    """The tokens, read once here so that a damaged file is reported at the start."""
    if options.tokens is None:
        return None
    path = options.tokens.expanduser()
    check_private_file(path, "security.rest.tokens")
    file = TokenFile(path)
    _ = file.tokens
    return file


def trust_among_masters(options: RestSecurityOptions) -> ssl.SSLContext | None:
    """The TLS context with which a standby calls the leader; None without TLS."""
    if not options.tls:
        return None
    return client_context(options.authorities, options.certificate, options.key)


def may_forward_to(options: RestSecurityOptions, url: str) -> bool:
    """Whether a standby may send requests, with the tokens of their clients, to this leader.

    The URL comes from the coordinator. Without TLS nobody proves to be the leader, so then it must
    be on this machine.
    """
    return _may_forward(options.tls or options.allow_plain_tokens, url)


@functools.lru_cache(maxsize=8)
def _may_forward(is_protected: bool, url: str) -> bool:
    """Cached, so that the reason is logged once."""
    if is_protected or is_loopback(urlsplit(url).hostname or ""):
        return True
    log.warning(
        "requests are not forwarded to the leader at %s: it is on another machine, and "
        "security.ssl.rest.enabled is not set",
        url,
    )
    return False


def check_coordinator_access(configuration: Configuration) -> None:
    """Refuse a ZooKeeper through which strangers could command the cluster."""
    url = coordinator_url(configuration.of(ClusterOptions))
    if urlsplit(url).scheme != "zookeeper":
        return
    if configuration.of(InternalSecurityOptions).tls:
        # Whoever writes to ZooKeeper still has no certificate of the cluster.
        return
    check_ensemble_access(read_location(url), configuration.of(ZooKeeperOptions))


class ListeningOptions(Protocol):
    """The options of a process that say where it listens and who it is."""

    @property
    def resource_id(self) -> str | None: ...

    @property
    def bind_host(self) -> str: ...

    @property
    def host(self) -> str | None: ...

    @property
    def rpc_port(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class ProcessResources:
    """The parts that a master and a task executor open in the same way."""

    resource_id: ResourceId
    directories: Directories
    rpc: GrpcRpcService
    storage: Storage
    metrics: MetricRegistry


async def open_process_resources(
    stack: AsyncExitStack,
    configuration: Configuration,
    options: ListeningOptions,
    *,
    ids: Ids,
    kind: str,
    bind_host_key: str,
    host_key: str,
    is_over: Callable[[], bool],
) -> ProcessResources:
    """Open the resources; the stack closes them. `is_over` then tells whether the cluster ended.

    A process without a configured id draws one that begins with `kind`. `bind_host_key` and
    `host_key` name the options in the errors for addresses that others could call without
    authentication, or could not call at all.
    """
    resource_id = ResourceId(options.resource_id or ids.resource(kind))
    credentials = rpc_credentials(configuration, options.bind_host, bind_host_key)
    host = advertised_host(options.bind_host, bind_host_key, options.host, host_key)
    check_coordinator_access(configuration)
    claim_cluster_directories(configuration.of(ClusterOptions))
    directories = stack.enter_context(
        directories_for(
            resource_id,
            configuration.of(ProcessOptions),
            is_permanent=options.resource_id is not None,
            is_over=is_over,
        )
    )
    metrics = await stack.enter_async_context(
        _measuring(configuration.of(MetricOptions), component=kind, resource_id=resource_id)
    )
    rpc = await open_grpc(
        options.bind_host,
        options.rpc_port,
        configuration.of(RpcOptions),
        ids=ids,
        credentials=credentials,
        secret=None if credentials else _cluster_secret(configuration),
        advertised_host=host,
        metrics=metrics.process,
    )
    stack.push_async_callback(rpc.close)
    storage = open_storage(storage_url(configuration.of(ClusterOptions)))
    return ProcessResources(
        resource_id=resource_id,
        directories=directories,
        rpc=rpc,
        storage=MeasuredStorage(storage, metrics.process),
        metrics=metrics,
    )


@asynccontextmanager
async def _measuring(
    options: MetricOptions, *, component: str, resource_id: str
) -> AsyncIterator[MetricRegistry]:
    """The registry of this process, with the figures of the process itself."""
    registry = MetricRegistry()
    if not options.enabled:
        registry.process.close()
        yield registry
        return
    measure_process(
        registry.process, version=__version__, component=component, resource_id=resource_id
    )
    async with TaskScope("metrics") as scope:
        scope.spawn("loop lag", measure_loop_lag(registry.process))
        yield registry

"""Opens what every process of a cluster needs: directories, RPC, storage, coordinator.

The order matters. Credentials are checked first, before anything listens. The directories come
next, because everything after them may write there. The coordinator comes last: once its session is
open, other processes may notice this one.
"""

import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Protocol

from stoker.config.configuration import Configuration
from stoker.config.processes import ClusterOptions, ProcessOptions
from stoker.core.errors import StartupFailed, Unavailable
from stoker.core.ids import Ids, ResourceId
from stoker.gateways.leases import LeaseOptions
from stoker.ha.coordinator import Coordinator
from stoker.ha.open import open_coordinator
from stoker.ha.zookeeper.options import ZooKeeperOptions
from stoker.processes.directories import Directories, coordinator_url, directories_for, storage_url
from stoker.rpc.grpc_transport import GrpcCredentials, GrpcRpcService, credentials_from, open_grpc
from stoker.rpc.options import RpcOptions
from stoker.security.binding import advertised_host, check_binding
from stoker.security.material import client_context, internal_material
from stoker.security.options import InternalSecurityOptions, RestSecurityOptions
from stoker.security.tokens import TokenFile
from stoker.storage.contract import Storage
from stoker.storage.open import open_storage


async def open_session(
    configuration: Configuration, ids: Ids, *, auto_renewing: bool
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
    return session


async def open_first_session(
    configuration: Configuration, ids: Ids, *, auto_renewing: bool
) -> Coordinator:
    """Like `open_session`, for the start of a process, which cannot start without a coordinator."""
    try:
        return await open_session(configuration, ids, auto_renewing=auto_renewing)
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


def token_file(options: RestSecurityOptions) -> TokenFile | None:
    """The tokens, read once here so that a damaged file is reported at the start."""
    if options.tokens is None:
        return None
    file = TokenFile(options.tokens.expanduser())
    _ = file.tokens
    return file


def trust_among_masters(options: RestSecurityOptions) -> ssl.SSLContext | None:
    """The TLS context with which a standby calls the leader; None without TLS."""
    if not options.tls:
        return None
    return client_context(options.authorities, options.certificate, options.key)


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
    directories = stack.enter_context(
        directories_for(
            resource_id,
            configuration.of(ProcessOptions),
            is_permanent=options.resource_id is not None,
            is_over=is_over,
        )
    )
    rpc = await open_grpc(
        options.bind_host,
        options.rpc_port,
        configuration.of(RpcOptions),
        ids=ids,
        credentials=credentials,
        advertised_host=host,
    )
    stack.push_async_callback(rpc.close)
    return ProcessResources(
        resource_id=resource_id,
        directories=directories,
        rpc=rpc,
        storage=open_storage(storage_url(configuration.of(ClusterOptions))),
    )

"""Everything that the REST server needs from the rest of its process."""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import cast

from stoker.aio.clock import WallClock, system_wall_clock
from stoker.blob.server import BlobServer
from stoker.core.errors import NoLeader
from stoker.core.ids import Ids
from stoker.gateways.dispatcher import DispatcherGateway
from stoker.gateways.inspection import InspectionGateway
from stoker.ha.publication import LeaderAddress
from stoker.ha.retrieval import LeaderRetrieval
from stoker.rest.http.asgi import Scope
from stoker.rest.job_list.snapshots import FindDispatcher, JobListSnapshot, SharedSnapshots
from stoker.rest.options import RestOptions
from stoker.rest.programs.store import ProgramStore
from stoker.rest.requests.operations import Operations
from stoker.rpc.service import RpcService
from stoker.savepoints.locations import OpenStorage
from stoker.savepoints.options import SavepointOptions
from stoker.security.tokens import TokenFile
from stoker.storage.open import open_place

FindProcess = Callable[[str], Awaitable[InspectionGateway]]
"""Finds the inspection endpoint of the process at an address."""


@dataclass(frozen=True, kw_only=True)
class RestServices:
    dispatcher: FindDispatcher
    blobs: BlobServer
    leads: Callable[[], bool]
    """Whether this master leads and so answers requests itself."""
    leader_url: Callable[[], str | None]
    """Base URL of the leader's REST server, to which a standby forwards requests."""
    options: RestOptions
    version: str
    clock: WallClock = system_wall_clock
    tokens: TokenFile | None = None
    """Tokens of the callers to admit; None admits every caller that reaches this master."""
    trust: ssl.SSLContext | None = None
    """TLS context for calls to another master."""
    ids: Ids = field(default_factory=Ids)
    configuration: Mapping[str, str] = field(default_factory=dict)
    """Configuration of this process, without secrets."""
    inspection: InspectionGateway | None = None
    """Inspection of this process."""
    process_at: FindProcess | None = None
    programs: ProgramStore | None = None
    savepoints: SavepointOptions = SavepointOptions()
    """The same options as in the job masters."""
    open_storage: OpenStorage = open_place
    """Opens the storage of savepoints."""
    snapshots: SharedSnapshots = field(default_factory=SharedSnapshots)
    operations: Operations = field(default_factory=lambda: Operations(timedelta(minutes=5)))

    async def job_list_snapshot(self) -> JobListSnapshot:
        """The jobs at a moment after this call; raises NoLeader when no dispatcher leads."""
        return await self.snapshots.take(self.dispatcher, self.clock)


SERVICES = "stoker.services"
"""Key of the services in the ASGI scope of a request."""


def services_of(scope: Scope) -> RestServices:
    """The services of the server that received the request."""
    return cast("RestServices", scope[SERVICES])


class DispatcherFinder:
    """Connects to the leading dispatcher, and again only when another one leads."""

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

"""Everything that the REST server needs from the rest of its process."""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property

from stoker.aio.clock import WallClock, system_wall_clock
from stoker.blob.server import BlobServer
from stoker.core.errors import NoLeader
from stoker.core.ids import Ids
from stoker.gateways.dispatcher import DispatcherGateway
from stoker.gateways.inspection import InspectionGateway
from stoker.ha.publication import LeaderAddress
from stoker.ha.retrieval import LeaderRetrieval
from stoker.metrics.registry import MetricRegistry
from stoker.rest.control.metric_fetcher import FindProcess, MetricFetcher
from stoker.rest.events.feed import ClusterFeed
from stoker.rest.events.log_feed import LogFeed
from stoker.rest.http.access import Access
from stoker.rest.http.page_access import PageSessions
from stoker.rest.job_list.snapshots import FindDispatcher, JobListSnapshot, SharedSnapshots
from stoker.rest.options import RestOptions
from stoker.rest.programs.store import ProgramStore
from stoker.rest.programs.turns import CompilationTurns
from stoker.rest.requests.operations import Operations
from stoker.rpc.service import RpcService
from stoker.savepoints.options import SavepointOptions
from stoker.savepoints.places import Places
from stoker.security.audit import AuditLog
from stoker.security.submission_limits import SubmissionLimits
from stoker.security.tokens import Role, TokenFile


@dataclass(frozen=True, kw_only=True)
class RestServices:
    dispatcher: FindDispatcher
    blobs: BlobServer
    leads: Callable[[], bool]
    """Whether this master leads and so answers requests itself."""
    leader_url: Callable[[], str | None]
    """Base URL of the leader's REST server, for people and programs."""
    forwarding_url: Callable[[], str | None]
    """Base URL to which a standby forwards requests: http, https or unix."""
    epoch: Callable[[], int | None] = lambda: None
    """Epoch of the leader; None while nobody leads."""
    forwarding_proof: Callable[[], str | None] = lambda: None
    """What a standby sends to show the leader that it is a master; None while nobody leads."""
    options: RestOptions
    version: str
    clock: WallClock = system_wall_clock
    tokens: TokenFile | None = None
    """Tokens of the callers to admit; None admits every caller that reaches this master."""
    roles_of_certificates: Mapping[str, Role] = field(default_factory=dict)
    """Roles of the holders of client certificates, by the common names of these."""
    submission_limits: Mapping[Role, SubmissionLimits] = field(default_factory=dict)
    """Limits of the tokens of a role, where a token has none of its own."""
    page_sessions: PageSessions = field(default_factory=PageSessions)
    """The cookies of callers who use the web page."""
    local_user: str = ""
    """Owner of the jobs that are submitted without a token."""
    audit: AuditLog | None = None
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
    places: Places = field(default_factory=Places)
    """The storages of savepoints that requests may name."""
    snapshots: SharedSnapshots = field(default_factory=SharedSnapshots)
    feed: ClusterFeed = field(default_factory=ClusterFeed)
    log_feed: LogFeed = field(default_factory=LogFeed)
    compilations: CompilationTurns = field(default_factory=CompilationTurns)
    metrics: MetricRegistry = field(default_factory=MetricRegistry)
    """The metrics of this process."""
    fetcher: MetricFetcher = field(default_factory=MetricFetcher)
    operations: Operations = field(default_factory=lambda: Operations(timedelta(minutes=5)))

    @cached_property
    def access(self) -> Access:
        return Access(
            self.tokens,
            self.clock,
            self.local_user,
            self.submission_limits,
            self.roles_of_certificates,
        )

    async def job_list_snapshot(self) -> JobListSnapshot:
        """The jobs at a moment after this call; raises NoLeader when no dispatcher leads."""
        return await self.snapshots.take(self.dispatcher, self.clock)


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

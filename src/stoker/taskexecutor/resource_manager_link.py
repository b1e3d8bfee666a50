"""The task executor's side of its registration at the resource manager.

The task executor registers at each leading resource manager in turn. It obeys a leader from the
moment it sends its registration, because slot requests may arrive before the answer does.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from stoker.aio.latest import Latest
from stoker.core.errors import Conflict, FencingTokenMismatch, StokerError
from stoker.core.values import FencingToken
from stoker.gateways.resourcemanager import (
    Declined,
    Registered,
    RegistrationAnswer,
    ResourceManagerGateway,
    SlotReport,
    TaskExecutorRegistration,
)
from stoker.ha.publication import LeaderAddress
from stoker.ha.retrieval import LeaderRetrieval
from stoker.heartbeat.monitor import Liveness
from stoker.heartbeat.options import HeartbeatOptions
from stoker.heartbeat.service import HeartbeatReceiver
from stoker.metrics.registry import MetricGroup, unread_metrics
from stoker.rpc.options import RegistrationOptions
from stoker.rpc.registration import RegistrationVerdict, register
from stoker.rpc.service import RpcService

log = logging.getLogger(__name__)


@dataclass
class ResourceManagerLink:
    rpc: RpcService
    retrieval: LeaderRetrieval
    registration: Callable[[], TaskExecutorRegistration]
    heartbeat: HeartbeatOptions
    retries: RegistrationOptions
    metrics: MetricGroup = field(default_factory=unread_metrics)
    connected: Latest[FencingToken | None] = field(default_factory=lambda: Latest(None))
    """The leadership whose requests are obeyed; the registration may still be unanswered."""
    registered: Latest[FencingToken | None] = field(default_factory=lambda: Latest(None))
    """The leadership that has accepted this task executor."""

    def __post_init__(self) -> None:
        self._manager: ResourceManagerGateway | None = None
        self.beats: HeartbeatReceiver[SlotReport, None] = HeartbeatReceiver(
            "task executor from resource manager",
            self.heartbeat,
            own_payload=lambda _: self.registration().report,
            on_payload=lambda _origin, _payload: None,
            on_lost=self._on_silent,
            metrics=self.metrics,
        )

    def check(self, token: FencingToken) -> None:
        """Refuse a resource manager at which this task executor is not registered."""
        if token != self.connected.value:
            raise FencingTokenMismatch(
                f"registered at {self.connected.value}, not at {token}", given=str(token)
            )

    def heartbeat_arrived(self, token: FencingToken) -> SlotReport:
        self.check(token)
        return self.beats.request_arrived(str(token), None)

    def disconnected(self, token: FencingToken, reason: str) -> None:
        if token == self.connected.value:
            log.warning("disconnected by the resource manager: %s", reason)
            self._disconnect()

    def _on_silent(self, origin: str, liveness: Liveness) -> None:
        log.warning("no heartbeat from the resource manager (%s); tasks continue", liveness.value)
        self._disconnect()

    def _disconnect(self) -> None:
        if self.connected.value is not None:
            self.beats.unmonitor_target(str(self.connected.value))
        self._manager = None
        self.connected.set(None)
        self.registered.set(None)

    async def run(self) -> None:
        while True:
            await self._stay_registered(await self.retrieval.wait_for_leader())

    async def _stay_registered(self, leader: LeaderAddress) -> None:
        """Register, and return when the leader has changed or the connection is lost."""
        registering = asyncio.create_task(self._register(leader), name="register")
        changing = asyncio.create_task(
            self.retrieval.wait_for_leader_other_than(leader), name="leader change"
        )
        try:
            await asyncio.wait({registering, changing}, return_when=asyncio.FIRST_COMPLETED)
            if registering.done() and not changing.done():
                registering.result()
                dropped = asyncio.create_task(
                    self.connected.wait_until(lambda known: known != leader.token), name="dropped"
                )
                try:
                    await asyncio.wait({dropped, changing}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    dropped.cancel()
        finally:
            registering.cancel()
            changing.cancel()
            self._disconnect()

    async def _register(self, leader: LeaderAddress) -> None:
        answer = await register(
            partial(self.rpc.connect, leader.address, ResourceManagerGateway, token=leader.token),
            partial(self._send_registration, leader),
            _verdict,
            options=self.retries,
        )
        if isinstance(answer, Declined):
            # A final rejection means that another process runs, or has registered, under this
            # resource id.
            log.error("the resource manager rejected the registration: %s", answer.reason)
            raise Conflict(f"the resource manager rejected this executor: {answer.reason}")
        # `connected` is None when the connection was lost before the answer came.
        self.registered.set(self.connected.value)

    async def _send_registration(
        self, leader: LeaderAddress, manager: ResourceManagerGateway
    ) -> RegistrationAnswer:
        # Set before the request: the manager may ask for slots before its answer arrives.
        self._manager = manager
        self.connected.set(leader.token)
        self.beats.monitor_target(str(leader.token))
        return await manager.register_task_executor(self.registration())

    async def report_slots(self) -> None:
        """Report a freed slot now instead of with the next heartbeat."""
        manager = self._manager
        if manager is None:
            return
        registration = self.registration()
        try:
            await manager.slot_freed(registration.instance, registration.report)
        except StokerError as error:
            log.info("the next heartbeat reports the free slot: %s", error)

    async def deregister(self, reason: str) -> None:
        manager = self._manager
        if manager is None:
            return
        try:
            await manager.task_executor_leaves(self.registration().instance, reason)
        except StokerError as error:
            log.info("the resource manager was not notified: %s", error)


def _verdict(answer: RegistrationAnswer) -> RegistrationVerdict:
    match answer:
        case Registered():
            return RegistrationVerdict.ACCEPTED
        case Declined(final=final):
            return RegistrationVerdict.REJECTED if final else RegistrationVerdict.REFUSED

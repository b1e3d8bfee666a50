"""Heartbeats between two processes: one side asks, the other answers, and either notices a loss.

`HeartbeatSender` sends a request to each of its targets every interval. `HeartbeatReceiver`
expects such requests. For both, a target that stays silent for the timeout is lost. The sender
also gives a target up earlier, when several calls in a row find nobody at its address: a process
that was killed is noticed within two intervals instead of a whole timeout.

Invariant: a loss is reported exactly once, and the target is forgotten before it is reported, so
that the listener may monitor the same id again at once. `monitor.py` decides; this module owns
the tasks and the timers.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from stoker.aio.scope import TaskScope
from stoker.core.errors import NotFound, RecipientUnreachable, StokerError
from stoker.heartbeat.monitor import Liveness, Monitor
from stoker.heartbeat.options import NEVER, HeartbeatOptions
from stoker.metrics.catalogue import HEARTBEAT_LOSSES, HEARTBEATS_MISSED
from stoker.metrics.registry import MetricGroup, unread_metrics

log = logging.getLogger(__name__)

Own = TypeVar("Own")
Theirs = TypeVar("Theirs")

HeartbeatCall = Callable[[Own], Awaitable[Theirs]]
"""Sends one heartbeat with our payload to a target and returns the payload of its answer."""
OwnPayload = Callable[[str], Own]
"""Makes the payload for the target with this id, each time that one is sent."""
PayloadListener = Callable[[str, Theirs], None]
"""Receives the id of a target and the payload that arrived from it."""
LossListener = Callable[[str, Liveness], None]
"""Called once when a target is lost, with the reason; the target is no longer monitored then."""

NEVER_HEARD = -1.0
QUICK_PROBE_GAP_SECONDS = 0.1
"""Pause between two probes of a poke: long enough for a connection to be made again."""

SHORTEST_WAIT_SECONDS = 0.001
"""A timer may fire early by the clock's resolution; shorter waits would make the loop spin."""


@dataclass(eq=False, kw_only=True)
class MonitoredTarget(Generic[Own, Theirs]):
    """One period of monitoring a target; monitoring the same id again makes a new object."""

    id: str
    call: HeartbeatCall[Own, Theirs] | None
    monitor: Monitor
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


class _HeartbeatService(Generic[Own, Theirs]):
    """The common part of both sides. Monitors nothing outside its `async with`."""

    def __init__(
        self,
        name: str,
        options: HeartbeatOptions,
        *,
        own_payload: OwnPayload[Own],
        on_payload: PayloadListener[Theirs],
        on_lost: LossListener,
        metrics: MetricGroup | None = None,
        link: str = "",
    ) -> None:
        """`link`: the name in metrics, if `name` holds an id."""
        metrics = metrics or unread_metrics()
        self._link = link or name
        self._missed = metrics.counter(HEARTBEATS_MISSED)
        self._losses = metrics.counter(HEARTBEAT_LOSSES)
        self._name = name
        self._options = options
        self._own_payload = own_payload
        self._on_payload = on_payload
        self._on_lost = on_lost
        self._targets: dict[str, MonitoredTarget[Own, Theirs]] = {}
        self._scope = TaskScope(name)
        self._is_open = False

    async def __aenter__(self) -> Self:
        await self._scope.__aenter__()
        self._is_open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._is_open = False
        self._targets.clear()
        return await self._scope.__aexit__(kind, error, traceback)

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(self._targets)

    def last_heard(self, target_id: str) -> float:
        """Loop time of the last sign of life, or NEVER_HEARD for a target that is unknown."""
        target = self._targets.get(target_id)
        return target.monitor.last_heard if target else NEVER_HEARD

    def unmonitor_target(self, target_id: str) -> None:
        """Report nothing more about this target. Harmless when it is not monitored."""
        target = self._targets.pop(target_id, None)
        if target:
            self._cancel_tasks(target)

    def poke(self, target_id: str) -> None:
        """Probe the target at once, because the transport saw a broken connection."""
        target = self._targets.get(target_id)
        if target and target.call:
            self._spawn(target, "poke", self._probe_quickly(target))

    def _add(
        self, target_id: str, call: HeartbeatCall[Own, Theirs] | None
    ) -> MonitoredTarget[Own, Theirs] | None:
        """Replaces an earlier target with the same id; None when the service is closed."""
        if not self._is_open:
            return None
        self.unmonitor_target(target_id)
        monitor = Monitor(
            timeout=self._options.timeout.total_seconds(),
            threshold=self._options.rpc_failure_threshold,
            last_heard=asyncio.get_running_loop().time(),
        )
        target = MonitoredTarget(id=target_id, call=call, monitor=monitor)
        self._targets[target_id] = target
        self._spawn(target, "watch", self._watch(target))
        return target

    def _spawn(
        self,
        target: MonitoredTarget[Own, Theirs],
        purpose: str,
        coroutine: Coroutine[Any, Any, None],
    ) -> None:
        task = self._scope.spawn(f"{target.id}/{purpose}", coroutine)
        target.tasks.add(task)
        task.add_done_callback(target.tasks.discard)

    def _accept_payload(self, target_id: str, payload: Theirs) -> bool:
        """Record a sign of life and report its payload; False when the target is unknown."""
        target = self._targets.get(target_id)
        if target is None:
            return False
        target.monitor = target.monitor.after_heartbeat(asyncio.get_running_loop().time())
        self._on_payload(target_id, payload)
        return True

    async def _probe(self, target: MonitoredTarget[Own, Theirs]) -> None:
        """Call the target once. Any error other than unreachable counts as silence."""
        if target.call is None:
            return
        try:
            payload = await target.call(self._own_payload(target.id))
        except RecipientUnreachable as error:
            log.debug("%s: %s is unreachable: %s", self._name, target.id, error)
            self._missed.increment(self._link)
            target.monitor = target.monitor.after_unreachable_call()
            self._report_if_lost(target)
        except StokerError as error:
            log.debug("%s: heartbeat to %s failed: %s", self._name, target.id, error)
            self._missed.increment(self._link)
        else:
            if self._targets.get(target.id) is target:
                self._accept_payload(target.id, payload)

    async def _probe_quickly(self, target: MonitoredTarget[Own, Theirs]) -> None:
        """Probe until the target answers, or as often as the failure threshold says."""
        threshold = self._options.rpc_failure_threshold
        await self._probe(target)
        for _ in range(0 if threshold == NEVER else threshold - 1):
            if target.monitor.failures == 0:
                return
            await asyncio.sleep(QUICK_PROBE_GAP_SECONDS)
            await self._probe(target)

    async def _watch(self, target: MonitoredTarget[Own, Theirs]) -> None:
        loop = asyncio.get_running_loop()
        while target.monitor.liveness is Liveness.RUNNING:
            left = target.monitor.deadline - loop.time()
            await asyncio.sleep(max(left, SHORTEST_WAIT_SECONDS))
            target.monitor = target.monitor.at(loop.time())
        self._report_if_lost(target)

    def _report_if_lost(self, target: MonitoredTarget[Own, Theirs]) -> None:
        liveness = target.monitor.liveness
        if liveness is Liveness.RUNNING or self._targets.get(target.id) is not target:
            return
        del self._targets[target.id]
        self._cancel_tasks(target)
        self._losses.increment(self._link, liveness.value)
        self._on_lost(target.id, liveness)

    def _cancel_tasks(self, target: MonitoredTarget[Own, Theirs]) -> None:
        # A task that detects the loss runs the listener itself and must not cancel itself.
        for task in target.tasks - {asyncio.current_task()}:
            task.cancel()


class HeartbeatSender(_HeartbeatService[Own, Theirs]):
    """The asking side: calls every target once per interval and reports the answers."""

    def monitor_target(self, target_id: str, call: HeartbeatCall[Own, Theirs]) -> None:
        """Send the first request one interval from now. Replaces a target with the same id."""
        target = self._add(target_id, call)
        if target:
            self._spawn(target, "ask", self._send_requests(target))

    async def _send_requests(self, target: MonitoredTarget[Own, Theirs]) -> None:
        while True:
            await asyncio.sleep(self._options.interval.total_seconds())
            # Not awaited: a call that hangs must not delay the next request.
            self._spawn(target, "request", self._probe(target))


class HeartbeatReceiver(_HeartbeatService[Own, Theirs]):
    """The answering side: expects the requests of those that it monitors."""

    def monitor_target(self, origin: str, call: HeartbeatCall[Own, Theirs] | None = None) -> None:
        """Expect requests from now on. Only `poke` uses `call`."""
        self._add(origin, call)

    def request_arrived(self, origin: str, payload: Theirs) -> Own:
        """Return the answer to a heartbeat request; NotFound for an origin that is unknown."""
        if not self._accept_payload(origin, payload):
            raise NotFound(
                f"{self._name} does not monitor {origin} and does not answer its "
                "heartbeat; register first",
                origin=origin,
            )
        return self._own_payload(origin)

"""The targets of one heartbeat service: their monitors, their tasks, and the word of their loss."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from stoker.aio.scope import TaskScope
from stoker.core.errors import RecipientUnreachable, StokerError
from stoker.heartbeat.monitor import Liveness, Monitor
from stoker.heartbeat.options import NEVER, HeartbeatOptions

log = logging.getLogger(__name__)

Own = TypeVar("Own")
Theirs = TypeVar("Theirs")

Call = Callable[[Own], Awaitable[Theirs]]
"""One heartbeat to a target: own payload there, its payload back."""
OwnPayload = Callable[[str], Own]
"""Makes the payload for one target, when it is needed."""
PayloadListener = Callable[[str, Theirs], None]
"""Told a target's id and its payload."""
LossListener = Callable[[str, Liveness], None]
"""Told once that a target is lost, and how; it is not monitored any more by then."""

NEVER_HEARD = -1.0
QUICK_PROBE_GAP_SECONDS = 0.1
"""Between two probes of a poke: long enough for a connection to be made again."""

SHORTEST_WAIT_SECONDS = 0.001
"""A timer may fire early by the clock's resolution: without this the rest would be spun away."""


@dataclass(eq=False, kw_only=True)
class Watched(Generic[Own, Theirs]):
    """One target while it is monitored; monitoring an id again makes another one."""

    id: str
    call: Call[Own, Theirs] | None
    monitor: Monitor
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


class TargetWatch(Generic[Own, Theirs]):
    """Owns every task of every target; outside its `async with` it monitors nothing."""

    def __init__(
        self,
        name: str,
        options: HeartbeatOptions,
        own_payload: OwnPayload[Own],
        on_payload: PayloadListener[Theirs],
        on_lost: LossListener,
    ) -> None:
        self.name = name
        self.options = options
        self._own_payload = own_payload
        self._on_payload = on_payload
        self._on_lost = on_lost
        self._targets: dict[str, Watched[Own, Theirs]] = {}
        self._scope = TaskScope(name)
        self._open = False

    async def __aenter__(self) -> Self:
        await self._scope.__aenter__()
        self._open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._open = False
        self._targets.clear()
        return await self._scope.__aexit__(kind, error, traceback)

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(self._targets)

    def last_heard(self, target_id: str) -> float:
        """The loop's time of the last sign of life; NEVER_HEARD for one that is not monitored."""
        target = self._targets.get(target_id)
        return target.monitor.last_heard if target else NEVER_HEARD

    def add(self, target_id: str, call: Call[Own, Theirs] | None) -> Watched[Own, Theirs] | None:
        """Monitor from now on, in place of an earlier target of the same id; None when closed."""
        if not self._open:
            return None
        self.remove(target_id)
        monitor = Monitor(
            timeout=self.options.timeout.total_seconds(),
            threshold=self.options.rpc_failure_threshold,
            last_heard=asyncio.get_running_loop().time(),
        )
        target = Watched(id=target_id, call=call, monitor=monitor)
        self._targets[target_id] = target
        self.spawn(target, "watch", self._watch(target))
        return target

    def remove(self, target_id: str) -> None:
        """No word about this target after this; harmless when it is not monitored."""
        target = self._targets.pop(target_id, None)
        if target:
            self._end_tasks(target)

    def spawn(
        self, target: Watched[Own, Theirs], purpose: str, coroutine: Coroutine[Any, Any, None]
    ) -> None:
        task = self._scope.spawn(f"{target.id}/{purpose}", coroutine)
        target.tasks.add(task)
        task.add_done_callback(target.tasks.discard)

    def payload_arrived(self, target_id: str, payload: Theirs) -> bool:
        """Note a sign of life and report its payload; False when the target is not monitored."""
        target = self._targets.get(target_id)
        if target is None:
            return False
        target.monitor = target.monitor.heard(asyncio.get_running_loop().time())
        self._on_payload(target_id, payload)
        return True

    def own_payload_for(self, target_id: str) -> Own:
        return self._own_payload(target_id)

    async def probe(self, target: Watched[Own, Theirs]) -> None:
        """Call the target once; an error other than unreachable is silence, and times out."""
        if target.call is None:
            return
        try:
            payload = await target.call(self.own_payload_for(target.id))
        except RecipientUnreachable as error:
            log.debug("%s: nobody answers for %s: %s", self.name, target.id, error)
            target.monitor = target.monitor.call_found_nobody()
            self._tell_if_lost(target)
        except StokerError as error:
            log.debug("%s: heartbeat to %s failed: %s", self.name, target.id, error)
        else:
            if self._targets.get(target.id) is target:
                self.payload_arrived(target.id, payload)

    def poke(self, target_id: str) -> None:
        """Look at once whether the target is there; as many probes as it takes to know."""
        target = self._targets.get(target_id)
        if target and target.call:
            self.spawn(target, "poke", self._probe_quickly(target))

    async def _probe_quickly(self, target: Watched[Own, Theirs]) -> None:
        threshold = self.options.rpc_failure_threshold
        await self.probe(target)
        for _ in range(0 if threshold == NEVER else threshold - 1):
            if target.monitor.failures == 0:
                return
            await asyncio.sleep(QUICK_PROBE_GAP_SECONDS)
            await self.probe(target)

    async def _watch(self, target: Watched[Own, Theirs]) -> None:
        loop = asyncio.get_running_loop()
        while target.monitor.liveness is Liveness.RUNNING:
            left = target.monitor.deadline - loop.time()
            await asyncio.sleep(max(left, SHORTEST_WAIT_SECONDS))
            target.monitor = target.monitor.checked(loop.time())
        self._tell_if_lost(target)

    def _tell_if_lost(self, target: Watched[Own, Theirs]) -> None:
        liveness = target.monitor.liveness
        if liveness is Liveness.RUNNING or self._targets.get(target.id) is not target:
            return
        # Forgotten before anybody is told, so that the listener may monitor the id afresh.
        del self._targets[target.id]
        self._end_tasks(target)
        self._on_lost(target.id, liveness)

    def _end_tasks(self, target: Watched[Own, Theirs]) -> None:
        # The task that concludes a loss runs its own listener: it ends by itself.
        for task in target.tasks - {asyncio.current_task()}:
            task.cancel()

"""Starts task executors through a provider, as many as `scaling` decides.

A failed start is repeated at once while jobs need it. After too many failures within a minute each
further start waits, so that a task executor that can never start does not keep the machine busy.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from stoker.aio.scope import TaskScope
from stoker.core.errors import StokerError
from stoker.core.graph import ResourceProfile
from stoker.core.ids import ResourceId
from stoker.resourcemanager.matching import Need
from stoker.resourcemanager.options import ResourceManagerOptions
from stoker.resourcemanager.provider import EndedExecutor, Provider
from stoker.resourcemanager.scaling import StartFailures, executors_to_start

log = logging.getLogger(__name__)


@dataclass
class ExecutorSupply:
    provider: Provider
    options: ResourceManagerOptions
    scope: TaskScope
    on_end: Callable[[EndedExecutor], None]
    """Called for every task executor of the provider that has ended."""
    on_room: Callable[[], None]
    """Called when a new request for task executors may succeed."""
    _starting: dict[ResourceId, float] = field(default_factory=dict)
    _requested: int = 0
    """Number of starts that the provider has not answered yet."""
    _failures: StartFailures = field(default_factory=StartFailures)
    _pausing: bool = False

    def begin(self) -> None:
        """Watch the provider, and expect the task executors that it started in an earlier grant."""
        for resource_id in self.provider.alive():
            self._starting[resource_id] = self._now()
        if self.provider.limit:
            self.scope.spawn("ends of task executors", self._watch())

    @property
    def starting(self) -> int:
        return len(self._starting) + self._requested

    def startable(self, profile: ResourceProfile, staying: int) -> int:
        """Slots with this profile that could be started beside the `staying` task executors.

        A draining task executor counts as gone, though it may take a while to end.
        """
        offer = self.provider.offer
        if offer is None or not profile.fits_into(offer.profile):
            return 0
        return max(0, self.provider.limit - staying) * offer.slots

    @property
    def has_room(self) -> bool:
        return self._room() > 0

    def _room(self) -> int:
        return max(0, self.provider.limit - len(self.provider.alive()) - self._requested)

    def registered(self, resource_id: ResourceId) -> None:
        self._starting.pop(resource_id, None)

    def request(self, needs: Iterable[Need], free: int, *, spare: int = 0) -> None:
        """Start the missing task executors now, or after the pause that follows many failures."""
        count = executors_to_start(
            needs,
            self.provider.offer,
            free=free,
            starting=self.starting,
            room=self._room(),
            spare=spare,
        )
        if count == 0 or self._pausing:
            return
        wait = self._failures.wait(
            self._now(), most=self.options.start_failures, pause=self.options.start_pause
        )
        if wait > 0:
            self._pausing = True
            self.scope.spawn("pause", self._pause(wait))
            return
        for _ in range(count):
            self._requested += 1
            self.scope.spawn("start task executor", self._start())

    async def _start(self) -> None:
        try:
            resource_id = await self.provider.start()
        except StokerError as error:
            log.error("no task executor could be started: %s", error)
            self._failed()
        else:
            if resource_id not in self.provider.alive():
                # It has ended before this task got its turn.
                self._failed()
                return
            self._starting[resource_id] = self._now()
            log.info("task executor %s is being started", resource_id)
        finally:
            self._requested -= 1

    def _failed(self) -> None:
        self._failures = self._failures.with_failure(self._now())
        # In a task of its own: the failed start still counts as requested here.
        self.scope.spawn("request again", self._request_again())

    async def _request_again(self) -> None:
        self.on_room()

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._pausing = False
        self.on_room()

    async def _watch(self) -> None:
        while True:
            ended = await self.provider.next_end()
            if self._starting.pop(ended.resource_id, None) is not None:
                log.error(
                    "task executor %s ended before it registered: %s",
                    ended.resource_id,
                    ended.reason,
                )
                self._failed()
            self.on_end(ended)
            self.on_room()

    def stop_overdue(self) -> None:
        """Stop task executors that did not register in time; others are started in their place."""
        limit = self.options.start_timeout.total_seconds()
        for resource_id, since in list(self._starting.items()):
            if self._now() - since >= limit:
                del self._starting[resource_id]
                log.error("task executor %s did not register within %.0f s", resource_id, limit)
                self._failures = self._failures.with_failure(self._now())
                self.scope.spawn(f"stop {resource_id}", self.provider.stop(resource_id))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

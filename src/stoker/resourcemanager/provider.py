"""Providers: how a resource manager starts and stops task executors by itself."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from stoker.core.errors import Conflict
from stoker.core.graph import ResourceProfile
from stoker.core.ids import ResourceId


@dataclass(frozen=True, kw_only=True)
class ExecutorOffer:
    """What each task executor that a provider starts brings."""

    slots: int
    profile: ResourceProfile


@dataclass(frozen=True, kw_only=True)
class EndedExecutor:
    """A task executor that ended, whoever wanted it."""

    resource_id: ResourceId
    reason: str


def slot_profile(cores: float, memory_bytes: int, slots: int) -> ResourceProfile:
    """The slots of a task executor share it evenly."""
    share = max(1, slots)
    return ResourceProfile(cores=cores / share, memory_bytes=memory_bytes // share)


class Provider(Protocol):
    """Starts and stops task executors, and never has more than `limit` of them.

    It belongs to a process, not to a leadership: what it has started outlives a leader that is
    replaced, and nothing of it outlives the process, however that ends.
    """

    @property
    def limit(self) -> int:
        """0: it starts none, whoever is there was started by somebody else."""
        ...

    @property
    def offer(self) -> ExecutorOffer | None:
        """None when it starts none."""
        ...

    def alive(self) -> tuple[ResourceId, ...]:
        """Those that were started and have not ended, oldest first."""
        ...

    async def start(self) -> ResourceId:
        """Start one more; it registers by itself. Conflict at the limit, StartupFailed else."""
        ...

    async def stop(self, resource_id: ResourceId) -> None:
        """It and all that it started are gone when this returns; again is harmless."""
        ...

    async def next_end(self) -> EndedExecutor:
        """Wait for the end of one; each end is told once, also those that were asked for."""
        ...


class StandaloneProvider:
    """Starts nobody."""

    limit = 0
    offer: ExecutorOffer | None = None

    def alive(self) -> tuple[ResourceId, ...]:
        return ()

    async def start(self) -> ResourceId:
        raise Conflict(
            "task executors of this cluster are started by its operators; run stoker task-executor "
            "where there is room, or set resourcemanager.provider"
        )

    async def stop(self, resource_id: ResourceId) -> None:
        """What was not started here is not stopped here."""

    async def next_end(self) -> EndedExecutor:
        never: asyncio.Future[EndedExecutor] = asyncio.get_running_loop().create_future()
        return await never

"""Providers: how a resource manager starts and stops task executors by itself."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from stoker.core.errors import Conflict
from stoker.core.graph import ResourceProfile
from stoker.core.ids import ResourceId


@dataclass(frozen=True, kw_only=True)
class ExecutorOffer:
    """Slots of each task executor that a provider starts."""

    slots: int
    profile: ResourceProfile


@dataclass(frozen=True, kw_only=True)
class EndedExecutor:
    """A task executor that has ended, on request or by itself."""

    resource_id: ResourceId
    reason: str


def slot_profile(cores: float, memory_bytes: int, slots: int) -> ResourceProfile:
    """Resources of one slot: an equal share of its task executor."""
    share = max(1, slots)
    return ResourceProfile(cores=cores / share, memory_bytes=memory_bytes // share)


class Provider(Protocol):
    """Starts and stops task executors, and never runs more than `limit` of them.

    A provider belongs to a process, not to a leadership. Its task executors continue when the
    leader is replaced, and none outlives the process, however that ends.
    """

    @property
    def limit(self) -> int:
        """Largest number of task executors; 0 means that it starts none."""
        ...

    @property
    def offer(self) -> ExecutorOffer | None:
        """What each started task executor offers; None if it starts none."""
        ...

    def alive(self) -> tuple[ResourceId, ...]:
        """Task executors that were started and have not ended, oldest first."""
        ...

    async def start(self) -> ResourceId:
        """Start one task executor, which registers by itself.

        Conflict at the limit, StartupFailed if it cannot start.
        """
        ...

    async def stop(self, resource_id: ResourceId) -> None:
        """Stop a task executor and all its processes; does nothing if it has ended."""
        ...

    async def next_end(self) -> EndedExecutor:
        """Wait for the end of a task executor; each end is reported once, requested or not."""
        ...


class StandaloneProvider:
    """Provider of clusters whose operators start the task executors."""

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
        """Nothing to do: it has started none."""

    async def next_end(self) -> EndedExecutor:
        never: asyncio.Future[EndedExecutor] = asyncio.get_running_loop().create_future()
        return await never

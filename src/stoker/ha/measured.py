"""A session with the coordinator that measures its operations."""

from collections.abc import Sequence

from stoker.core.errors import SessionExpired, Unavailable
from stoker.ha.coordinator import ConnectionState, Coordinator, Op, Versioned, Watch
from stoker.metrics.catalogue import (
    COORDINATOR_CONNECTED,
    COORDINATOR_DURATION,
    COORDINATOR_ERRORS,
)
from stoker.metrics.operations import OperationMetrics
from stoker.metrics.registry import MetricGroup


class MeasuredCoordinator:
    """The metrics belong to a group with the label `session`."""

    def __init__(self, coordinator: Coordinator, metrics: MetricGroup) -> None:
        self._coordinator = coordinator
        self._operations = OperationMetrics(
            metrics,
            COORDINATOR_DURATION,
            COORDINATOR_ERRORS,
            failures=(Unavailable, SessionExpired),
        )
        metrics.gauge(
            COORDINATOR_CONNECTED,
            lambda: float(coordinator.state is ConnectionState.CONNECTED),
        )

    @property
    def session(self) -> str:
        return self._coordinator.session

    @property
    def session_timeout(self) -> float:
        return self._coordinator.session_timeout

    @property
    def last_contact(self) -> float:
        return self._coordinator.last_contact

    @property
    def tolerates_suspension(self) -> bool:
        return self._coordinator.tolerates_suspension

    @property
    def state(self) -> ConnectionState:
        return self._coordinator.state

    async def wait_for_state_other_than(self, known: ConnectionState) -> ConnectionState:
        return await self._coordinator.wait_for_state_other_than(known)

    async def read(self, key: str, *, watch: Watch | None = None) -> Versioned | None:
        return await self._operations.measure(
            "read", lambda: self._coordinator.read(key, watch=watch)
        )

    async def children(self, key: str, *, watch: Watch | None = None) -> list[str]:
        return await self._operations.measure(
            "children", lambda: self._coordinator.children(key, watch=watch)
        )

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        return await self._operations.measure("commit", lambda: self._coordinator.commit(ops))

    async def sync(self) -> None:
        await self._operations.measure("sync", self._coordinator.sync)

    async def close(self) -> None:
        await self._coordinator.close()

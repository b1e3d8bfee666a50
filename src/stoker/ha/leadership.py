"""Leadership of one component: its token, its fenced writes, and its published address.

Components of one process share a grant and with it an epoch, but each has a session id of its own.
Every store of records at the coordinator is created for one leadership, so that none can write
without the check of the epoch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.core.ids import ResourceId
from stoker.core.values import FencingToken
from stoker.ha.coordinator import Coordinator, Op
from stoker.ha.grant import Grant
from stoker.ha.publication import LeaderPublication


@dataclass(frozen=True, kw_only=True, eq=False)
class Leadership:
    """One component's share of a grant, with its own session id."""

    component: str
    token: FencingToken
    grant: Grant
    publication: LeaderPublication

    @property
    def process(self) -> ResourceId:
        return self.grant.process

    @property
    def coordinator(self) -> Coordinator:
        """For reads only; writes go through `commit`."""
        return self.grant.coordinator

    @property
    def is_valid(self) -> bool:
        """Whether this process still believes that it leads; only a `commit` knows for sure."""
        return self.grant.is_valid

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        """Commit a transaction on the condition that no later leader has raised the epoch.

        Raises LeadershipLost, with nothing applied, when this leadership is over; otherwise the
        errors of the coordinator's `commit`.
        """
        return await self.grant.commit(ops)

    async def publish(self, address: str, socket: str = "") -> None:
        """Publish the address of this component for as long as the leadership lasts.

        Returns when the address is written, or without writing when the leadership is over.
        """
        await self.publication.publish(address, socket)

"""Leadership as a scope: what a component that leads may do."""

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.core.ids import ResourceId
from stoker.core.values import FencingToken
from stoker.ha.coordinator import Coordinator, Op
from stoker.ha.grant import Grant
from stoker.ha.publication import LeaderPublication


@dataclass(frozen=True, kw_only=True, eq=False)
class Leadership:
    """One component's part of a grant, with a session id of its own."""

    component: str
    token: FencingToken
    grant: Grant
    publication: LeaderPublication

    @property
    def process(self) -> ResourceId:
        return self.grant.process

    @property
    def coordinator(self) -> Coordinator:
        """For reads. Writes go through `commit`."""
        return self.grant.coordinator

    @property
    def is_valid(self) -> bool:
        """As far as this process knows; only a `commit` knows for sure."""
        return self.grant.is_valid

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        """One transaction that holds only while no later leader has raised the epoch.

        Raises LeadershipLost, with nothing applied, when this leadership is over; else as the
        coordinator's `commit`.
        """
        return await self.grant.commit(ops)

    async def publish(self, address: str) -> None:
        """Confirm: others find this component at the address while the leadership lasts.

        Returns when it is written, or, without writing, when the leadership is over.
        """
        await self.publication.publish(address)

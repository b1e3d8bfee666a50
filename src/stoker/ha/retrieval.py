"""Leader retrieval: who leads a component now, and every change of that.

A leader publishes its address under an ephemeral key. While contact with the coordinator is lost,
nobody can tell whether that leader still leads, so the leader counts as unknown. If the coordinator
tolerates suspension, the leader stays known for a session timeout after the last contact.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass

from stoker.aio.latest import Latest
from stoker.core.errors import CorruptContent
from stoker.ha import keys
from stoker.ha.coordinator import ConnectionState, Coordinator, Watch
from stoker.ha.follow import follow, has_contact, wait_until_connected
from stoker.ha.publication import LeaderAddress
from stoker.ha.record import decode_record

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Observation:
    """Numbered, so that a leader who comes back unchanged is reported again."""

    number: int
    leader: LeaderAddress | None


class LeaderRetrieval:
    """Follows one component while its owner runs `run`; many users may wait for the leader."""

    def __init__(self, coordinator: Coordinator, component: str) -> None:
        self.component = component
        self._coordinator = coordinator
        self._observed = Latest(_Observation(0, None))

    @property
    def leader(self) -> LeaderAddress | None:
        return self._observed.value.leader

    async def leaders(self) -> AsyncIterator[LeaderAddress | None]:
        """The leader known now, then each change; None while there is no leader.

        A slow reader may miss changes in between. A leader that was unknown while contact with the
        coordinator was lost is reported again, even if it is the same.
        """
        observed = self._observed.value
        while True:
            yield observed.leader
            observed = await self._observed.wait_for_change(observed)

    async def wait_for_leader(self) -> LeaderAddress:
        observed = await self._observed.wait_until(lambda latest: latest.leader is not None)
        assert observed.leader is not None
        return observed.leader

    async def wait_for_leader_other_than(self, known: LeaderAddress | None) -> LeaderAddress | None:
        """The leader, or None when there is none, as soon as it differs from the known one."""
        return (await self._observed.wait_until(lambda latest: latest.leader != known)).leader

    async def run(self) -> None:
        """Follow until the coordinator's session is over; after that, no leader is known."""
        try:
            await follow(
                self._coordinator,
                self._read,
                subject=f"the leader of {self.component}",
                wait_for_contact=self._wait_for_contact,
            )
        finally:
            self._set_leader(None)

    async def _read(self, watch: Watch) -> None:
        found = await self._coordinator.read(keys.leader(self.component), watch=watch)
        self._set_leader(self._decode_or_none(found.value) if found else None)

    async def _wait_for_contact(self) -> None:
        state = self._coordinator.state
        while state is ConnectionState.SUSPENDED and has_contact(self._coordinator):
            state = await self._tolerate_suspension()
        if state is ConnectionState.SUSPENDED:
            self._set_leader(None)
        await wait_until_connected(self._coordinator)

    async def _tolerate_suspension(self) -> ConnectionState:
        """Wait for another state, for at most the session timeout after the last contact."""
        coordinator = self._coordinator
        until = coordinator.last_contact + coordinator.session_timeout
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                return await coordinator.wait_for_state_other_than(ConnectionState.SUSPENDED)
        return coordinator.state

    def _decode_or_none(self, value: bytes) -> LeaderAddress | None:
        try:
            return decode_record(value, LeaderAddress, keys.leader(self.component))
        except CorruptContent as error:
            log.warning("%s; no leader is known until it publishes again", error)
            return None

    def _set_leader(self, leader: LeaderAddress | None) -> None:
        observed = self._observed.value
        if leader != observed.leader:
            self._observed.set(_Observation(observed.number + 1, leader))

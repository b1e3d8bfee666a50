"""Leader retrieval: who leads a component now, and every change of that."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from stoker.aio.latest import Latest
from stoker.aio.retry import Backoff
from stoker.core.errors import CorruptContent, SessionExpired, Unavailable
from stoker.ha import keys
from stoker.ha.contact import is_in_touch
from stoker.ha.coordinator import ConnectionState, Coordinator, Watch
from stoker.ha.publication import LeaderAddress
from stoker.ha.record import decode_record

log = logging.getLogger(__name__)

BACKOFF: Final = Backoff(initial=timedelta(seconds=0.1), maximum=timedelta(seconds=5))


@dataclass(frozen=True)
class _Sighting:
    """Numbered, so that a leader who comes back unchanged is told again."""

    number: int
    leader: LeaderAddress | None


class LeaderRetrieval:
    """Follows one component. `run` belongs to the caller; the rest can be used by many."""

    def __init__(self, coordinator: Coordinator, component: str) -> None:
        self.component = component
        self._coordinator = coordinator
        self._seen = Latest(_Sighting(0, None))

    @property
    def leader(self) -> LeaderAddress | None:
        return self._seen.value.leader

    async def leaders(self) -> AsyncIterator[LeaderAddress | None]:
        """What is known now, then each true change; None when there is no leader.

        A slow reader may miss what was between. After contact with the coordinator was lost, the
        leader is told again, even if it is the same.
        """
        seen = self._seen.value
        while True:
            yield seen.leader
            seen = await self._seen.wait_for_change(seen)

    async def wait_for_leader(self) -> LeaderAddress:
        seen = await self._seen.wait_until(lambda sighting: sighting.leader is not None)
        assert seen.leader is not None
        return seen.leader

    async def wait_while(self, known: LeaderAddress | None) -> LeaderAddress | None:
        """The leader, as soon as it is not the known one."""
        return (await self._seen.wait_until(lambda sighting: sighting.leader != known)).leader

    async def run(self) -> None:
        """Until the coordinator's session is over; then nobody leads, and SessionExpired."""
        failures = 0
        try:
            while True:
                await self._wait_until_connected()
                try:
                    await self._follow()
                except Unavailable as error:
                    log.info("the leader of %s cannot be read: %s", self.component, error)
                    await asyncio.sleep(BACKOFF.delay(failures).total_seconds())
                    failures += 1
                else:
                    failures = 0
        finally:
            self._tell(None)

    async def _follow(self) -> None:
        """Until contact is lost."""
        await self._coordinator.sync()
        while self._coordinator.state is ConnectionState.CONNECTED:
            watch = Watch()
            found = await self._coordinator.read(keys.leader(self.component), watch=watch)
            self._tell(self._understood(found.value) if found else None)
            await watch.wait()

    async def _wait_until_connected(self) -> None:
        state = self._coordinator.state
        while state is ConnectionState.SUSPENDED:
            if is_in_touch(self._coordinator):
                state = await self._bear_with_silence()
                continue
            self._tell(None)
            state = await self._coordinator.wait_for_state_other_than(state)
        if state is ConnectionState.LOST:
            raise SessionExpired("the coordinator's session has ended: no leader can be found")

    async def _bear_with_silence(self) -> ConnectionState:
        """The leader stays known until its session, or this one, may have ended."""
        coordinator = self._coordinator
        until = coordinator.last_contact + coordinator.session_timeout
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                return await coordinator.wait_for_state_other_than(ConnectionState.SUSPENDED)
        return coordinator.state

    def _understood(self, value: bytes) -> LeaderAddress | None:
        try:
            return decode_record(value, LeaderAddress, keys.leader(self.component))
        except CorruptContent as error:
            log.warning("%s; until its leader publishes again, there is none", error)
            return None

    def _tell(self, leader: LeaderAddress | None) -> None:
        seen = self._seen.value
        if leader != seen.leader:
            self._seen.set(_Sighting(seen.number + 1, leader))

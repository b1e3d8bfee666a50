"""Publication of a leader's address: written, maintained and withdrawn by its owner.

An address must never survive its leader, and an earlier leader must never overwrite the address of
a later one. So the key is ephemeral, and every write of it is fenced by the epoch. Others may still
delete or replace the key by mistake; the leader watches it and writes it back.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from typing import Any, Final

from stoker.aio.latest import Latest
from stoker.core.errors import Conflict, LeadershipLost, NotFound, SessionExpired, Unavailable
from stoker.core.failpoints import failpoint
from stoker.core.ids import ResourceId
from stoker.core.values import FencingToken
from stoker.ha import keys
from stoker.ha.coordinator import Create, Delete, Op, Put, Versioned, Watch
from stoker.ha.grant import Grant
from stoker.ha.record import StoredRecord, encode

log = logging.getLogger(__name__)

REASSERT_SECONDS: Final = 120.0
"""A watch reports changes at once; this interval covers changes that it may have missed."""
RETRY_SECONDS: Final = 0.5


class LeaderAddress(StoredRecord, frozen=True, kw_only=True):
    """Value of `leader/<component>`."""

    component: str
    address: str
    token: FencingToken
    process: ResourceId
    socket: str = ""
    """Another address of the component, for processes of the same user on its machine."""


class LeaderPublication:
    """At most one address for each leadership, maintained for as long as it lasts."""

    def __init__(self, grant: Grant, component: str, token: FencingToken) -> None:
        self._grant = grant
        self._component = component
        self._token = token
        self._key = keys.leader(component)
        self._attempted: bytes | None = None
        """Value that the key may have, also after a write whose outcome is unknown."""
        self._published: Latest[bytes | None] = Latest(None)

    async def publish(self, address: str, socket: str = "") -> None:
        """Try until the address is written or the leadership is over."""
        wanted = encode(
            LeaderAddress(
                component=self._component,
                address=address,
                token=self._token,
                process=self._grant.process,
                socket=socket,
            )
        )
        self._attempted = wanted
        # The key is nearly always absent, so read it only if creating it fails.
        stands = await self._try(self._create(wanted))
        while not stands and not self._grant.is_revoked:
            stands = await self._try(self._assert(wanted, Watch()))
        if stands:
            self._published.set(wanted)

    async def keep(self) -> None:
        """Write the address back whenever somebody else changed or removed it."""
        while not self._grant.is_revoked:
            wanted = await self._published.wait_until(lambda value: value is not None)
            assert wanted is not None
            watch = Watch()
            if await self._try(self._assert(wanted, watch)):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(REASSERT_SECONDS):
                        await watch.wait()

    async def withdraw(self) -> None:
        """Remove the address, unless a later leader may have published its own."""
        if self._attempted is None:
            return
        try:
            found = await self._grant.coordinator.read(self._key)
            if found is not None and self._is_own(found, self._attempted):
                await self._grant.commit_until_superseded([Delete(self._key, found.version)])
        except (Conflict, NotFound, Unavailable, SessionExpired, LeadershipLost) as error:
            log.info("the address of %s was not withdrawn: %s", self._component, error)

    async def _try(self, assertion: Coroutine[Any, Any, bool]) -> bool:
        try:
            return await assertion
        except LeadershipLost:
            return False
        except (Unavailable, SessionExpired) as error:
            log.info("%s cannot be published yet: %s", self._component, error)
            await asyncio.sleep(RETRY_SECONDS)
            return False

    async def _create(self, wanted: bytes) -> bool:
        failpoint("publication.before-write")
        try:
            await self._grant.commit([Create(self._key, wanted, ephemeral=True)])
        except (Conflict, NotFound):
            return False
        failpoint("publication.after-write")
        return True

    async def _assert(self, wanted: bytes, watch: Watch) -> bool:
        """Whether the key had the right address when it was read with the watch."""
        found = await self._grant.coordinator.read(self._key, watch=watch)
        if found is not None and self._is_own(found, wanted):
            return True
        failpoint("publication.before-write")
        try:
            await self._grant.commit(self._replacement(found, wanted))
        except (Conflict, NotFound):
            # Another writer was faster, or the read returned an old value.
            await self._grant.coordinator.sync()
        failpoint("publication.after-write")
        return False

    def _replacement(self, found: Versioned | None, wanted: bytes) -> list[Op]:
        create = Create(self._key, wanted, ephemeral=True)
        if found is None:
            return [create]
        if found.owner == self._grant.coordinator.session:
            return [Put(self._key, wanted, found.version)]
        # A key cannot change its owner: a key of another session would vanish with that session.
        return [Delete(self._key, found.version), create]

    def _is_own(self, found: Versioned, wanted: bytes) -> bool:
        return found.owner == self._grant.coordinator.session and found.value == wanted

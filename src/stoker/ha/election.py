"""Leader election: one for each process, shared by all its components that contend.

Whoever creates the ephemeral election key leads, and raises the epoch in the same transaction. So
the epoch changes whenever the leader does, and a transaction that names the epoch proves that
nobody has won in between. (The version of the election key alone would prove nothing: it is 0 for
every leader.) The whole protocol is in docs/protocols/epochs.md.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from stoker.aio.latest import Latest
from stoker.aio.log_context import bind_log_fields
from stoker.aio.scope import TaskScope
from stoker.core.errors import (
    Conflict,
    Fenced,
    LeadershipLost,
    NotFound,
    SessionExpired,
    StokerError,
    Unavailable,
)
from stoker.core.failpoints import failpoint
from stoker.core.ids import Ids, ResourceId, SessionId
from stoker.core.values import FencingToken
from stoker.ha import keys
from stoker.ha.coordinator import (
    Check,
    ConnectionState,
    Coordinator,
    Create,
    Delete,
    Put,
    Versioned,
    Watch,
)
from stoker.ha.grant import Grant
from stoker.ha.leadership import Leadership
from stoker.ha.publication import Publication
from stoker.ha.record import StoredRecord, encode

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.5

Lead = Callable[[Leadership], Awaitable[None]]
"""What a component does while it leads; cancelled when the leadership ends."""


class Candidacy(StoredRecord, frozen=True, kw_only=True):
    """Value of the election key and of the epoch key: who leads, or led last."""

    process: ResourceId
    nonce: str
    session: str
    """The coordinator's session that the election key belongs to."""


@dataclass(frozen=True)
class _Over:
    """The election has ended; nobody will be granted anything any more."""

    reason: StokerError


class LeaderElection:
    """Takes part while there are contenders. `run` and each `contend` belong to their callers."""

    def __init__(self, coordinator: Coordinator, *, process: ResourceId, ids: Ids) -> None:
        self._coordinator = coordinator
        self._process = process
        self._ids = ids
        self._candidacy = encode(
            Candidacy(process=process, nonce=ids.nonce(), session=coordinator.session)
        )
        self._standing: Latest[Grant | _Over | None] = Latest(None)
        self._contenders: Latest[frozenset[str]] = Latest(frozenset())
        self._led: dict[SessionId, Grant] = {}
        self.last_epoch: int | None = None
        """The last one in which this process led."""

    @property
    def leads(self) -> bool:
        standing = self._standing.value
        return isinstance(standing, Grant) and standing.is_valid

    def has_leadership(self, session: SessionId) -> bool:
        """Whether a component leads under this session id, as far as this process knows."""
        grant = self._led.get(session)
        return grant is not None and grant.is_valid

    async def run(self) -> None:
        """Win, hold, lose, again; raises SessionExpired when the coordinator's session is over.

        When cancelled, leadership is handed over at once.
        """
        reason: StokerError = LeadershipLost(f"{self._process} has left the election")
        try:
            while True:
                await self._take_part_once()
        except StokerError as error:
            reason = error
            raise
        finally:
            self._stand(_Over(reason))
            await self._release()

    async def contend(self, component: str, lead: Lead) -> None:
        """Run `lead` under each grant, one after the other, until cancelled.

        An error of `lead` is raised from here. When the election itself has ended, that reason is
        raised.
        """
        if component in self._contenders.value:
            raise ValueError(f"component {component} contends already")
        self._contenders.set(self._contenders.value | {component})
        try:
            known: Grant | None = None
            while True:
                known = await self._next_grant(known)
                await self._lead(component, known, lead)
        finally:
            self._contenders.set(self._contenders.value - {component})

    async def _next_grant(self, known: Grant | None) -> Grant:
        def is_news(standing: Grant | _Over | None) -> bool:
            if isinstance(standing, Grant):
                return standing is not known and not standing.revoked
            return standing is not None

        standing = await self._standing.wait_until(is_news)
        if isinstance(standing, _Over):
            raise standing.reason
        assert standing is not None
        return standing

    async def _lead(self, component: str, grant: Grant, lead: Lead) -> None:
        token = FencingToken(epoch=grant.epoch, session=self._ids.session())
        leadership = Leadership(
            component=component,
            token=token,
            grant=grant,
            publication=Publication(grant, component, token),
        )

        async def lead_once() -> None:
            bind_log_fields(component=component, epoch=grant.epoch)
            await lead(leadership)

        self._led[token.session] = grant
        try:
            async with TaskScope(f"{component}@{token}") as scope:
                scope.spawn("publication", leadership.publication.keep())
                scope.spawn("lead", lead_once())
                await grant.wait_until_revoked()
        except (Fenced, Unavailable, SessionExpired) as error:
            if grant.is_valid and self._coordinator.state is ConnectionState.CONNECTED:
                raise
            # What it tried last met the end of its leadership before the cancellation did; or it
            # cannot go on without the contact whose loss was tolerated.
            grant.revoke()
            log.info("%s stopped leading: %s", component, error)
        finally:
            del self._led[token.session]
            await leadership.publication.withdraw()

    async def _take_part_once(self) -> None:
        await self._contenders.wait_until(lambda contenders: len(contenders) > 0)
        await self._wait_until_connected()
        try:
            grant = await self._try_to_win()
            if grant is not None:
                await self._hold(grant)
        except Unavailable as error:
            # Also when the outcome is unknown: the next try reads back what is there.
            log.warning("the election is interrupted: %s", error)
            await asyncio.sleep(RETRY_SECONDS)

    async def _wait_until_connected(self) -> None:
        state = self._coordinator.state
        while state is ConnectionState.SUSPENDED:
            state = await self._coordinator.wait_for_state_other_than(state)
        if state is ConnectionState.LOST:
            raise SessionExpired(
                f"the coordinator's session of {self._process} has ended", process=self._process
            )

    async def _try_to_win(self) -> Grant | None:
        # The epoch first: if it still is this one when the transaction comes, then nobody has won
        # since, and a candidacy of ours that was read after it is ours still.
        epoch = await self._coordinator.read(keys.EPOCH)
        watch = Watch()
        holder = await self._coordinator.read(keys.ELECTION, watch=watch)
        if holder is not None and not self._is_ours(holder):
            await watch.wait()
            return None
        failpoint("election.before-raising-epoch")
        try:
            versions = await self._coordinator.commit([self._claim(holder), self._raise(epoch)])
        except (Conflict, NotFound):
            await self._coordinator.sync()
            return None
        failpoint("election.after-raising-epoch")
        # So that the records are read with the last write of the leader before.
        await self._coordinator.sync()
        return Grant(self._coordinator, process=self._process, epoch=versions[1])

    def _is_ours(self, holder: Versioned) -> bool:
        return holder.value == self._candidacy and holder.owner == self._coordinator.session

    def _claim(self, holder: Versioned | None) -> Check | Create:
        if holder is None:
            return Create(keys.ELECTION, self._candidacy, ephemeral=True)
        return Check(keys.ELECTION, holder.version)

    def _raise(self, epoch: Versioned | None) -> Put | Create:
        if epoch is None:
            return Create(keys.EPOCH, self._candidacy)
        return Put(keys.EPOCH, self._candidacy, epoch.version)

    async def _hold(self, grant: Grant) -> None:
        log.info("%s leads, epoch %d", self._process, grant.epoch)
        self.last_epoch = grant.epoch
        self._stand(grant)
        try:
            while await self._still_holds(grant):
                pass
        finally:
            self._stand(None)
            log.info("%s does not lead any more, epoch %d", self._process, grant.epoch)
        if not self._contenders.value:
            await self._release()

    async def _still_holds(self, grant: Grant) -> bool:
        """Waits for the next event, and says whether the grant has outlived it."""
        watch = Watch()
        try:
            holder = await self._coordinator.read(keys.ELECTION, watch=watch)
        except Unavailable:
            # Contact is there, so nothing has ended yet; writes are fenced in any case.
            if grant.is_valid:
                await asyncio.sleep(RETRY_SECONDS)
            return grant.is_valid
        if not grant.is_valid or holder is None or not self._is_ours(holder):
            return False
        async with TaskScope("election") as scope:
            events = [
                scope.spawn("key", watch.wait()),
                scope.spawn("revoked", grant.wait_until_revoked()),
                scope.spawn("contenders", self._contenders.wait_until(lambda some: not some)),
                scope.spawn(
                    "contact",
                    self._coordinator.wait_for_state_other_than(ConnectionState.CONNECTED),
                ),
            ]
            await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
        return grant.is_valid and len(self._contenders.value) > 0

    def _stand(self, standing: Grant | _Over | None) -> None:
        """Tell all contenders; what they were granted before is revoked."""
        before = self._standing.value
        if isinstance(before, Grant) and before is not standing:
            before.revoke()
        self._standing.set(standing)

    async def _release(self) -> None:
        """Let another one lead at once, if the election key is ours."""
        try:
            epoch = await self._coordinator.read(keys.EPOCH)
            holder = await self._coordinator.read(keys.ELECTION)
            if epoch is None or holder is None or not self._is_ours(holder):
                return
            await self._coordinator.commit(
                [Check(keys.EPOCH, epoch.version), Delete(keys.ELECTION, holder.version)]
            )
        except (Conflict, NotFound, Unavailable, SessionExpired) as error:
            log.info("%s did not release the election key: %s", self._process, error)

"""Leader election: one for each process, shared by all its components that want to lead.

Two masters must never both act as leader, also when one of them was frozen and wakes up late. So
whoever creates the ephemeral election key leads, and raises the epoch in the same transaction: the
epoch changes whenever the leader does. Every write of a leader checks the epoch in its own
transaction, which proves that nobody has won in between. (The version of the election key would
prove nothing: it is 0 for every leader.) The whole protocol is in docs/protocols/epochs.md.
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
    CorruptContent,
    Fenced,
    LeadershipLost,
    NotFound,
    SessionExpired,
    StokerError,
    Unavailable,
)
from stoker.core.failpoints import failpoint
from stoker.core.ids import Ids, ResourceId
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
from stoker.ha.follow import wait_until_connected
from stoker.ha.grant import Grant
from stoker.ha.leadership import Leadership
from stoker.ha.publication import LeaderPublication
from stoker.ha.record import StoredRecord, decode_record, encode

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.5

LeadComponent = Callable[[Leadership], Awaitable[None]]
"""The work of a component while it leads; cancelled when the leadership ends."""


class Candidacy(StoredRecord, frozen=True, kw_only=True):
    """Value of the election key and of the epoch key: the process that leads, or led last."""

    process: ResourceId
    nonce: str
    session: str
    """The session with the coordinator that owns the election key."""


def _previous_leader(epoch: Versioned | None) -> ResourceId | None:
    """None also for a record that cannot be read: who led before decides nothing."""
    if epoch is None:
        return None
    try:
        return decode_record(epoch.value, Candidacy, keys.EPOCH).process
    except CorruptContent:
        return None


@dataclass(frozen=True)
class _Ended:
    """The election has ended: there are no further grants."""

    reason: StokerError


class LeaderElection:
    """Takes part while a component wants to lead.

    The caller runs `run`, and `run_while_leading` for each component, in tasks of its own.
    """

    def __init__(self, coordinator: Coordinator, *, process: ResourceId, ids: Ids) -> None:
        self._coordinator = coordinator
        self._process = process
        self._ids = ids
        self._candidacy = encode(
            Candidacy(process=process, nonce=ids.nonce(), session=coordinator.session)
        )
        self._state: Latest[Grant | _Ended | None] = Latest(None)
        self._contenders: Latest[frozenset[str]] = Latest(frozenset())
        self.last_epoch: int | None = None
        """The last epoch in which this process led."""

    @property
    def is_leading(self) -> bool:
        state = self._state.value
        return isinstance(state, Grant) and state.is_valid

    async def run(self) -> None:
        """Take part again and again; raise SessionExpired when the coordinator's session is over.

        When cancelled, hand over the leadership at once.
        """
        reason: StokerError = LeadershipLost(f"{self._process} has left the election")
        try:
            while True:
                await self._run_one_round()
        except StokerError as error:
            reason = error
            raise
        finally:
            self._set_state(_Ended(reason))
            await self._release_key()

    async def run_while_leading(self, component: str, lead: LeadComponent) -> None:
        """Run `lead` under each grant, one after the other, until cancelled.

        Raises what `lead` raises, or the reason why the election has ended.
        """
        if component in self._contenders.value:
            raise ValueError(f"component {component} contends already")
        self._contenders.set(self._contenders.value | {component})
        try:
            known: Grant | None = None
            while True:
                known = await self._next_grant(known)
                await self._lead_under(known, component, lead)
        finally:
            self._contenders.set(self._contenders.value - {component})

    async def _next_grant(self, known: Grant | None) -> Grant:
        def is_news(state: Grant | _Ended | None) -> bool:
            if isinstance(state, Grant):
                return state is not known and not state.is_revoked
            return state is not None

        state = await self._state.wait_until(is_news)
        if isinstance(state, _Ended):
            raise state.reason
        assert state is not None
        return state

    async def _lead_under(self, grant: Grant, component: str, lead: LeadComponent) -> None:
        token = FencingToken(epoch=grant.epoch, session=self._ids.session())
        leadership = Leadership(
            component=component,
            token=token,
            grant=grant,
            publication=LeaderPublication(grant, component, token),
        )

        async def work() -> None:
            bind_log_fields(component=component, epoch=grant.epoch)
            await lead(leadership)

        try:
            async with TaskScope(f"{component}@{token}") as scope:
                scope.spawn("publication", leadership.publication.keep())
                scope.spawn("lead", work())
                await grant.wait_until_revoked()
        except (Fenced, Unavailable, SessionExpired) as error:
            if grant.is_valid and self._coordinator.state is ConnectionState.CONNECTED:
                raise
            # The component's last write failed because the leadership had just ended, or the
            # component cannot continue without the contact whose loss was tolerated.
            grant.revoke()
            log.info("%s stopped leading: %s", component, error)
        finally:
            await leadership.publication.withdraw()

    async def _run_one_round(self) -> None:
        await self._contenders.wait_until(lambda contenders: len(contenders) > 0)
        await wait_until_connected(self._coordinator)
        try:
            grant = await self._try_to_win()
            if grant is not None:
                await self._hold_grant(grant)
        except Unavailable as error:
            # Also when the outcome of the commit is unknown: the next round reads what is there.
            log.warning("the election is interrupted: %s", error)
            await asyncio.sleep(RETRY_SECONDS)

    async def _try_to_win(self) -> Grant | None:
        # Read the epoch first: if it is unchanged at the transaction, then nobody has won since,
        # and an election key of ours that was read after it is still ours.
        asked_at = asyncio.get_running_loop().time()
        epoch = await self._coordinator.read(keys.EPOCH)
        watch = Watch()
        holder = await self._coordinator.read(keys.ELECTION, watch=watch)
        if holder is not None and not self._is_ours(holder):
            await watch.wait()
            return None
        failpoint("election.before-raising-epoch")
        try:
            versions = await self._coordinator.commit(
                [self._claim_key(holder), self._raise_epoch(epoch)]
            )
        except (Conflict, NotFound):
            await self._coordinator.sync()
            return None
        failpoint("election.after-raising-epoch")
        # The new leader must read the records with the last write of the previous one.
        await self._coordinator.sync()
        return Grant(
            self._coordinator,
            process=self._process,
            epoch=versions[1],
            vacancy_noticed_at=asked_at if holder is None else None,
            previous=_previous_leader(epoch),
            led_at=asyncio.get_running_loop().time(),
        )

    def _is_ours(self, holder: Versioned) -> bool:
        return holder.value == self._candidacy and holder.owner == self._coordinator.session

    def _claim_key(self, holder: Versioned | None) -> Check | Create:
        if holder is None:
            return Create(keys.ELECTION, self._candidacy, ephemeral=True)
        return Check(keys.ELECTION, holder.version)

    def _raise_epoch(self, epoch: Versioned | None) -> Put | Create:
        if epoch is None:
            return Create(keys.EPOCH, self._candidacy)
        return Put(keys.EPOCH, self._candidacy, epoch.version)

    async def _hold_grant(self, grant: Grant) -> None:
        log.info("%s leads, epoch %d", self._process, grant.epoch)
        self.last_epoch = grant.epoch
        self._set_state(grant)
        try:
            while await self._holds_after_next_event(grant):
                pass
        finally:
            self._set_state(None)
            log.info("%s leads no longer, epoch %d", self._process, grant.epoch)
        if not self._contenders.value:
            await self._release_key()

    async def _holds_after_next_event(self, grant: Grant) -> bool:
        """Wait for the next event; whether the grant is still valid and wanted after it."""
        watch = Watch()
        try:
            holder = await self._coordinator.read(keys.ELECTION, watch=watch)
        except Unavailable:
            # A failed read does not show that the leadership is over; every write is fenced anyway.
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

    def _set_state(self, state: Grant | _Ended | None) -> None:
        """Inform all contenders, and revoke the previous grant."""
        before = self._state.value
        if isinstance(before, Grant) and before is not state:
            before.revoke()
        self._state.set(state)

    async def _release_key(self) -> None:
        """Delete the election key if it is ours, so that another process leads at once."""
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

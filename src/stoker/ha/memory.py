"""A coordinator in memory, for tests and simulations: real session semantics, faults on demand."""

import asyncio
import itertools
import math
from collections.abc import Iterable, Sequence
from enum import Enum

from stoker.aio.latest import Latest
from stoker.core.errors import ConnectionLost, CoordinatorUnavailable, SessionExpired
from stoker.ha.coordinator import ConnectionState, Op, Versioned, Watch
from stoker.ha.transaction import Record, checked_key, plan, refuse_ephemeral
from stoker.ha.watches import WatchedState, Watches, WatchKey, WatchKind


class Loss(Enum):
    """When the connection breaks, relative to a commit under way."""

    BEFORE_APPLYING = "before applying"
    AFTER_APPLYING = "after applying"


class _Tree:
    """The records at one moment."""

    def __init__(self, records: dict[str, Record] | None = None) -> None:
        self.records = records or {}

    def get(self, key: str) -> Record | None:
        return self.records.get(key)

    def keys_below(self, key: str) -> Iterable[str]:
        return [other for other in self.records if other.startswith(f"{key}/")]

    def children(self, key: str) -> list[str]:
        return sorted({other[len(key) + 1 :].split("/")[0] for other in self.keys_below(key)})

    def watched_state(self, watch_key: WatchKey) -> WatchedState:
        if watch_key.kind is WatchKind.CHILDREN:
            return WatchedState(tuple(self._lives_below(watch_key.key)))
        record = self.get(watch_key.key)
        return WatchedState((record.created, record.version) if record else ())

    def _lives_below(self, key: str) -> Iterable[tuple[str, int]]:
        """A child that was deleted and created again has changed, though its name is the same."""
        for name in self.children(key):
            record = self.get(f"{key}/{name}")
            yield name, record.created if record else 0

    def copy(self) -> "_Tree":
        return _Tree(dict(self.records))


class MemoryCoordination:
    """The state that all sessions share, with methods that cause faults.

    A suspended session ends after `session_timeout` seconds of loop time, if given; its client
    learns of that when it is resumed, as over a real network. An auto-renewing client then begins
    another session.
    """

    def __init__(
        self, *, session_timeout: float | None = None, tolerates_suspension: bool = False
    ) -> None:
        self.session_timeout = session_timeout
        self.tolerates_suspension = tolerates_suspension
        self._tree = _Tree()
        self._numbers = itertools.count(1)
        self._lives = itertools.count(1)
        self._sessions: dict[str, MemoryCoordinator] = {}

    def session(self, *, auto_renewing: bool = False) -> "MemoryCoordinator":
        return MemoryCoordinator(self, auto_renewing=auto_renewing)

    def begin(self, coordinator: "MemoryCoordinator") -> str:
        session = f"session-{next(self._numbers)}"
        self._sessions[session] = coordinator
        return session

    def expire(self, session: "MemoryCoordinator", *, tell: bool = True) -> None:
        """End the session. Without `tell`, its client finds out at its next call."""
        self._end(session.session)
        if tell:
            session.lose_session()

    def suspend(self, session: "MemoryCoordinator") -> None:
        session.disconnect()
        if self.session_timeout is not None:
            asyncio.get_running_loop().call_later(
                self.session_timeout, self._end_if_still_away, session, session.disconnections
            )

    def resume(self, session: "MemoryCoordinator") -> None:
        session.reconnect()

    def lose_next_commit(self, session: "MemoryCoordinator", loss: Loss) -> None:
        """Make the next commit of the session raise ConnectionLost and suspend it until resumed."""
        session.next_loss = loss

    def delay_reads(self, session: "MemoryCoordinator") -> None:
        """Freeze the state that the session reads and watches, until it syncs or writes."""
        session.stale_tree = self._tree.copy()

    def heal(self, session: "MemoryCoordinator") -> None:
        """Cancel all pending faults of the session and let it see the current state."""
        session.next_loss = None
        session.reconnect()
        session.catch_up()

    def is_live(self, session: str) -> bool:
        return session in self._sessions

    def tree(self) -> _Tree:
        return self._tree

    def all_keys(self) -> list[str]:
        """All keys, for the assertions of tests."""
        return sorted(self._tree.records)

    def apply(self, ops: Sequence[Op], session: str) -> list[int]:
        planned = plan(ops, self._tree, session=session)
        for key, written in planned.changes.items():
            before = self._tree.records.pop(key, None)
            if written is None:
                continue
            life = before.created if before and not written.is_new else next(self._lives)
            self._tree.records[key] = Record(
                value=written.value, version=written.version, owner=written.owner, created=life
            )
        self._tell(planned.changes)
        return planned.versions

    def _end_if_still_away(self, session: "MemoryCoordinator", disconnections: int) -> None:
        if session.state is ConnectionState.SUSPENDED and session.disconnections == disconnections:
            self._end(session.session)

    def _end(self, session: str) -> None:
        ended = self._sessions.pop(session, None)
        if ended is None:
            return
        ended.note_contact()
        gone = [key for key, record in self._tree.records.items() if record.owner == session]
        for key in gone:
            del self._tree.records[key]
        self._tell(gone)

    def _tell(self, touched: Iterable[str]) -> None:
        keys = list(touched)
        for session in list(self._sessions.values()):
            session.notice(keys)


class MemoryCoordinator:
    """One session of a MemoryCoordination; several in sequence if it is auto-renewing."""

    def __init__(self, coordination: MemoryCoordination, *, auto_renewing: bool) -> None:
        self._coordination = coordination
        self._auto_renewing = auto_renewing
        self._session = coordination.begin(self)
        self._contact_until = -math.inf
        self._state = Latest(ConnectionState.CONNECTED)
        self._watches = Watches()
        self.disconnections = 0
        self.next_loss: Loss | None = None
        self.stale_tree: _Tree | None = None

    @property
    def session(self) -> str:
        return self._session

    @property
    def session_timeout(self) -> float:
        timeout = self._coordination.session_timeout
        return math.inf if timeout is None else timeout

    @property
    def last_contact(self) -> float:
        if self.state is ConnectionState.CONNECTED and self._is_live():
            return asyncio.get_running_loop().time()
        return self._contact_until

    @property
    def tolerates_suspension(self) -> bool:
        return self._coordination.tolerates_suspension

    @property
    def state(self) -> ConnectionState:
        return self._state.value

    async def wait_for_state_other_than(self, known: ConnectionState) -> ConnectionState:
        return await self._state.wait_for_change(known)

    async def read(self, key: str, *, watch: Watch | None = None) -> Versioned | None:
        watch_key = WatchKey(WatchKind.VALUE, checked_key(key))
        await self._turn()
        tree = self._visible()
        if watch is not None:
            self._watches.add(watch_key, tree.watched_state(watch_key), watch)
        record = tree.get(key)
        if record is None:
            return None
        return Versioned(value=record.value, version=record.version, owner=record.owner)

    async def children(self, key: str, *, watch: Watch | None = None) -> list[str]:
        watch_key = WatchKey(WatchKind.CHILDREN, checked_key(key))
        await self._turn()
        tree = self._visible()
        if watch is not None:
            self._watches.add(watch_key, tree.watched_state(watch_key), watch)
        return tree.children(key)

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        if self._auto_renewing:
            refuse_ephemeral(ops)
        await self._turn()
        loss, self.next_loss = self.next_loss, None
        if loss is Loss.BEFORE_APPLYING:
            self._lose_connection()
        versions = self._coordination.apply(ops, self._session)
        if loss is Loss.AFTER_APPLYING:
            self._lose_connection()
        self.catch_up()
        return versions

    async def sync(self) -> None:
        await self._turn()
        self.catch_up()

    async def close(self) -> None:
        await asyncio.sleep(0)
        self._coordination.expire(self, tell=False)
        self._lose()

    def disconnect(self) -> None:
        if self.state is ConnectionState.CONNECTED:
            self.note_contact()
            self.disconnections += 1
            self._state.set(ConnectionState.SUSPENDED)
            self._watches.fire_all()

    def reconnect(self) -> None:
        if self.state is not ConnectionState.SUSPENDED:
            return
        if self._is_live():
            self._state.set(ConnectionState.CONNECTED)
        else:
            self.lose_session()

    def lose_session(self) -> None:
        """Inform the client that its session is over."""
        if self.state is ConnectionState.LOST:
            return
        if not self._auto_renewing:
            self._lose()
            return
        self._state.set(ConnectionState.SUSPENDED)
        self._watches.fire_all()
        self._session = self._coordination.begin(self)
        self._state.set(ConnectionState.CONNECTED)

    def note_contact(self) -> None:
        """Record the last contact: contact or the session ends now, whichever came first."""
        if self.state is ConnectionState.CONNECTED:
            self._contact_until = asyncio.get_running_loop().time()

    def notice(self, touched: Iterable[str]) -> None:
        if self.state is ConnectionState.CONNECTED and self.stale_tree is None:
            tree = self._coordination.tree()
            self._watches.settle(
                {
                    watch_key: tree.watched_state(watch_key)
                    for watch_key in self._watches.watched_keys(touched)
                }
            )

    def catch_up(self) -> None:
        """Let the session see the current state, and fire the watches that it changes."""
        self.stale_tree = None
        tree = self._coordination.tree()
        self._watches.settle(
            {watch_key: tree.watched_state(watch_key) for watch_key in self._watches.watched_keys()}
        )

    async def _turn(self) -> None:
        """Let other tasks run, as a real call would, then check contact and session."""
        await asyncio.sleep(0)
        if self.state is ConnectionState.SUSPENDED:
            raise CoordinatorUnavailable("no contact with the coordinator; try again later")
        if self.state is ConnectionState.CONNECTED and not self._is_live():
            self.lose_session()
        if self.state is ConnectionState.LOST:
            raise SessionExpired(f"{self._session} has ended; open another one")

    def _is_live(self) -> bool:
        return self._coordination.is_live(self._session)

    def _lose(self) -> None:
        self._state.set(ConnectionState.LOST)
        self._watches.fire_all()

    def _visible(self) -> _Tree:
        return self._coordination.tree() if self.stale_tree is None else self.stale_tree

    def _lose_connection(self) -> None:
        self._coordination.suspend(self)
        raise ConnectionLost("the connection was lost while writing; read back what is there")

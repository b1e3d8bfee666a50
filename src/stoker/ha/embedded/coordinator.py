"""The coordinator of one machine: SQLite for the records, file locks for liveness.

The kernel drops the lock of a process that dies, and whoever watches a key of that process notices
it within two polls. A process that is frozen keeps its lock, and so its session: the person who
runs the machine has to notice that. The directory must be on a local disk, because locks and shared
memory are not reliable on network file systems.

Records are read on the event loop if that is quick (`inline_reader`). Everything else, and every
write, happens in the one thread of the session (`session`), where writes that wait become durable
together (`group_commit`).
"""

import asyncio
import logging
import math
from collections.abc import Sequence
from pathlib import Path

from stoker.aio.latest import Latest
from stoker.aio.threads import BlockingThread
from stoker.core.errors import CoordinatorUnavailable, SessionExpired
from stoker.ha.coordinator import ConnectionState, Op, Versioned, Watch
from stoker.ha.embedded.group_commit import GroupCommit
from stoker.ha.embedded.session import EmbeddedSession
from stoker.ha.transaction import checked_key, refuse_ephemeral
from stoker.ha.watches import WatchedState, Watches, WatchKey, WatchKind

log = logging.getLogger(__name__)

POLL_SECONDS = 0.05


class EmbeddedCoordinator:
    """Created by `open`.

    Its session does not end by itself, so an auto-renewing one never needs another session.
    """

    def __init__(
        self, session: EmbeddedSession, thread: BlockingThread, *, auto_renewing: bool
    ) -> None:
        self._auto_renewing = auto_renewing
        self._session = session
        self._thread = thread
        self._state = Latest(ConnectionState.CONNECTED)
        self._commits = GroupCommit(session.commit)
        self._watches = Watches()
        self._touched: set[str] = set()
        """Keys of own transactions that the observer has not examined yet."""
        self._recent: set[str] = set()
        """Keys that the observer examined in its last pass."""
        self._suspicious = False
        """Any watched state may have changed."""
        self._has_written = False
        """This session has written since the thread last checked for changes by others."""
        self._awake = asyncio.Event()
        """The observer has something to examine."""
        self._poll_is_due = False
        self._observer: asyncio.Task[None] | None = None
        self._blind = False
        """The last pass of the observer failed; only the first failure in a row is logged."""
        self._closed = False
        self._contact_until = -math.inf

    @classmethod
    async def open(
        cls, directory: Path, *, session: str, auto_renewing: bool = False
    ) -> "EmbeddedCoordinator":
        thread = BlockingThread("coordinator")
        opening = asyncio.ensure_future(thread.run(EmbeddedSession, directory, session))
        try:
            return cls(await asyncio.shield(opening), thread, auto_renewing=auto_renewing)
        except BaseException:
            # The thread continues when its waiter is cancelled: do not leave a live session behind.
            await asyncio.wait([opening])
            if opening.exception() is None:
                await thread.run(opening.result().end)
            await thread.close()
            raise

    @property
    def session(self) -> str:
        return self._session.session

    @property
    def session_timeout(self) -> float:
        return math.inf

    @property
    def last_contact(self) -> float:
        if self.state is ConnectionState.CONNECTED:
            return asyncio.get_running_loop().time()
        return self._contact_until

    @property
    def tolerates_suspension(self) -> bool:
        return False

    @property
    def state(self) -> ConnectionState:
        return self._state.value

    async def wait_for_state_other_than(self, known: ConnectionState) -> ConnectionState:
        return await self._state.wait_for_change(known)

    async def read(self, key: str, *, watch: Watch | None = None) -> Versioned | None:
        watch_key = WatchKey(WatchKind.VALUE, checked_key(key))
        await self._yield_to_others()
        found = None if self._commits.may_change(key) else self._session.inline.read(key)
        if found is None:
            found = await self._thread.run(self._session.read, key)
        value, watched_state = found
        if watch is not None:
            self._watches.add(watch_key, watched_state, watch)
            self._observe()
        return value

    async def children(self, key: str, *, watch: Watch | None = None) -> list[str]:
        watch_key = WatchKey(WatchKind.CHILDREN, checked_key(key))
        await self._yield_to_others()
        found = None if self._commits.may_change(key) else self._session.inline.children(key)
        if found is None:
            found = await self._thread.run(self._session.children, key)
        names, watched_state = found
        if watch is not None:
            self._watches.add(watch_key, watched_state, watch)
            self._observe()
        return names

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        if self._auto_renewing:
            refuse_ephemeral(ops)
        self._require_session()
        transaction = self._commits.add(ops)
        self._has_written = True
        try:
            return await self._thread.run(self._commits.carry_out, transaction)
        except SessionExpired:
            self._lose()
            raise
        finally:
            self._commits.withdraw(transaction)
            self._note_own_change(transaction.changes)

    def _note_own_change(self, keys: frozenset[str]) -> None:
        """Note own changes for a running observer; a new observer examines everything anyway."""
        self._has_written = True
        if self._observer is not None and not self._observer.done():
            self._touched.update(keys)
            # A watch that is being set just now, after an earlier read, is served by the next poll.
            if self._watches.watched_keys(keys):
                self._awake.set()

    async def sync(self) -> None:
        """Nothing to synchronize: every read goes to the one file."""
        await self._yield_to_others()

    async def _yield_to_others(self) -> None:
        """Yield, so that reading thousands of records one by one does not block the loop."""
        self._require_session()
        await asyncio.sleep(0)
        self._require_session()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._lose()
        try:
            await self._end_observer()
        finally:
            await self._end_session()

    def _require_session(self) -> None:
        if self.state is ConnectionState.LOST:
            raise SessionExpired(f"session {self.session} has ended; open another one")

    def _lose(self) -> None:
        self._contact_until = self.last_contact
        self._state.set(ConnectionState.LOST)
        self._watches.fire_all()

    def _observe(self) -> None:
        """Poll for changes, but only while somebody waits for one."""
        if self.state is ConnectionState.LOST:
            self._watches.fire_all()
        elif self._observer is None or self._observer.done():
            self._observer = asyncio.create_task(self._observe_changes(), name="coordinator/watch")

    async def _observe_changes(self) -> None:
        loop = asyncio.get_running_loop()
        self._suspicious = True
        while self.state is ConnectionState.CONNECTED and self._watches.any_wanted:
            await self._examine(check_others=True)
            self._poll_is_due = False
            # A timer is cheaper than a timeout; this runs 20 times a second, all the time.
            timer = loop.call_later(POLL_SECONDS, self._poll_now)
            try:
                while await self._awake.wait() and not self._poll_is_due:
                    await self._examine(check_others=False)
            finally:
                timer.cancel()

    def _poll_now(self) -> None:
        self._poll_is_due = True
        self._awake.set()

    async def _examine(self, *, check_others: bool) -> None:
        self._awake.clear()
        touched, self._touched = self._touched, set()
        again, self._recent = self._recent, touched
        try:
            if check_others and not await self._session_lives():
                return
            # Examine each key twice: a read that was under way may have set its watch since.
            watch_keys = self._watches.watched_keys(None if self._suspicious else touched | again)
            watched_states = await self._watched_states(watch_keys)
        except CoordinatorUnavailable as error:
            if not self._blind:
                log.warning("changes by other processes are not visible for now: %s", error)
            self._blind = self._suspicious = True
            return
        self._blind = self._suspicious = False
        self._watches.settle(watched_states)

    async def _watched_states(self, watch_keys: set[WatchKey]) -> dict[WatchKey, WatchedState]:
        """Read on the loop, or in the thread if a transaction under way may change these keys."""
        if any(self._commits.may_change(watch_key.key) for watch_key in watch_keys):
            found_inline = None
        else:
            found_inline = self._session.inline.watched_states(watch_keys)
        return (
            await self._thread.run(self._session.watched_states, watch_keys)
            if found_inline is None
            else found_inline
        )

    async def _session_lives(self) -> bool:
        owners = self._watches.owners()
        poll = self._session.inline.poll(owners)
        if poll is None or (poll.changed and self._has_written):
            self._has_written = False
            poll = await self._thread.run(self._session.poll, owners)
        self._suspicious |= poll.changed
        if not poll.session_valid:
            log.error("the session file of %s was removed; the session is over", self.session)
            self._lose()
        return poll.session_valid

    async def _end_observer(self) -> None:
        if self._observer is None:
            return
        self._observer.cancel()
        # Unlike awaiting the task, this raises the cancellation of the caller only.
        await asyncio.wait([self._observer])
        if not self._observer.cancelled():
            self._observer.result()

    async def _end_session(self) -> None:
        try:
            await self._thread.run(self._session.end)
        except CoordinatorUnavailable as error:
            log.warning("session %s ended without removing its keys: %s", self.session, error)
        finally:
            await self._thread.close()

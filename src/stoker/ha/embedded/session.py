"""The blocking side of a session, which runs in its thread: records and session files together.

Nobody may see an ephemeral key of a session that has died. Its process cannot remove the key any
more, so whoever meets the key first removes all keys of that session, and then reads again.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from stoker.core.errors import CoordinatorUnavailable, SessionExpired, StokerError
from stoker.ha.coordinator import Check, Create, Delete, Op, Put, Versioned
from stoker.ha.embedded.database import Database
from stoker.ha.embedded.inline_reader import InlineReader
from stoker.ha.embedded.session_files import SessionFiles
from stoker.ha.embedded.view import DeadOwnerFound, SessionPoll, View
from stoker.ha.transaction import Record
from stoker.ha.watches import WatchedState, WatchKey

T = TypeVar("T")


class EmbeddedSession:
    """One session on the shared directory."""

    def __init__(self, directory: Path, session: str) -> None:
        self.session = session
        self._removed_dead = False
        self._seen_changes = -1
        self._liveness = SessionFiles(directory / "sessions")
        self._held = self._liveness.begin(session)
        path = directory / "records.sqlite"
        try:
            self._database = Database(path)
        except BaseException:
            self._held.end()
            raise
        self._view = View(self._database, self._liveness.is_alive, session)
        try:
            self._remove_dead_sessions()
            self.inline = InlineReader(path, self._liveness, self._held, session)
        except BaseException:
            self._end_session()
            raise

    def read(self, key: str) -> tuple[Versioned | None, WatchedState]:
        return self._without_dead_sessions(partial(self._view.read, key))

    def children(self, key: str) -> tuple[list[str], WatchedState]:
        return self._without_dead_sessions(partial(self._view.children, key))

    def commit(self, transactions: Sequence[Sequence[Op]]) -> list[list[int] | StokerError]:
        """Commit several transactions, each of them atomic, with one write to the disk.

        Returns the refusal of a transaction in its place; an error that is raised applies to all.
        """
        wanted = [op for ops in transactions for op in ops]
        found = {
            key: self._without_dead_sessions(partial(self._view.record, key))
            for key in sorted({op.key for op in wanted})
        }
        durable = any(_outlives_its_session(op, found[op.key]) for op in wanted)
        with self._database.exclusively(durable=durable):
            if not self._held.is_valid():
                raise SessionExpired(f"session {self.session} has ended: its file was removed")
            return [self._apply(ops) for ops in transactions]

    def _apply(self, ops: Sequence[Op]) -> list[int] | StokerError:
        try:
            return self._database.apply(ops, session=self.session)
        except CoordinatorUnavailable:
            raise
        except StokerError as refusal:
            # A refusal comes before anything of the transaction is written.
            return refusal

    def poll(self, owners: set[str]) -> SessionPoll:
        """What others, or the removal of dead sessions, have changed since the last poll."""
        while (dead := self._view.first_dead(owners)) is not None:
            self._remove_dead(dead)
            owners = owners - {dead}
        changes = self._database.changes_by_others()
        changed = changes != self._seen_changes or self._removed_dead
        self._seen_changes, self._removed_dead = changes, False
        return SessionPoll(session_valid=self._held.is_valid(), changed=changed)

    def watched_states(self, watch_keys: Iterable[WatchKey]) -> dict[WatchKey, WatchedState]:
        return self._without_dead_sessions(partial(self._view.watched_states, watch_keys))

    def end(self) -> None:
        """Remove the session's keys; if that fails, others remove them when they meet them."""
        self.inline.close()
        self._end_session()

    def _end_session(self) -> None:
        try:
            with self._database.exclusively():
                self._database.remove_keys_of(self.session)
        finally:
            self._held.end()
            self._database.close()

    def _without_dead_sessions(self, read: Callable[[], T]) -> T:
        while True:
            try:
                return read()
            except DeadOwnerFound as dead:
                self._remove_dead(dead.session)

    def _remove_dead(self, session: str) -> None:
        with self._database.exclusively():
            self._database.remove_keys_of(session)
        self._removed_dead = True
        self._liveness.forget(session)

    def _remove_dead_sessions(self) -> None:
        for session in self._liveness.dead():
            self._remove_dead(session)


def _outlives_its_session(op: Op, record: Record | None) -> bool:
    """Whether the change must survive a crash of the machine, which ends all sessions.

    A key without a record counts too: another session may be creating it at this moment.
    """
    match op:
        case Check():
            return False
        case Create(ephemeral=ephemeral):
            return not ephemeral
        case Put() | Delete():
            return record is None or record.owner is None

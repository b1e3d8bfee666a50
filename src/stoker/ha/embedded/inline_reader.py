"""Reads on the event loop: changing threads takes longer than reading a few records.

With a write-ahead log, a reader never waits for a writer. Reads that might take long after all
(many records, a locked file, keys of a dead session that must be removed) are left to the thread.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from stoker.core.errors import CoordinatorUnavailable
from stoker.ha.coordinator import Versioned
from stoker.ha.embedded.database import Database
from stoker.ha.embedded.session_files import HeldSession, SessionFiles
from stoker.ha.embedded.view import DeadOwnerFound, SessionPoll, TooManyRecords, View
from stoker.ha.watches import WatchedState, WatchKey

A = TypeVar("A")
T = TypeVar("T")

INLINE_LIMIT = 64
"""Most records, or watch keys, that are read on the loop at once."""


class InlineReader:
    """Every answer may be None: then the thread has to read instead."""

    def __init__(self, path: Path, liveness: SessionFiles, held: HeldSession, session: str) -> None:
        self._held = held
        self._database = Database(path, is_read_only=True)
        self._view = View(self._database, liveness.is_alive, session, limit=INLINE_LIMIT)
        self._seen_changes = -1

    def read(self, key: str) -> tuple[Versioned | None, WatchedState] | None:
        return _unless_slow(self._view.read, key)

    def children(self, key: str) -> tuple[list[str], WatchedState] | None:
        return _unless_slow(self._view.children, key)

    def watched_states(self, watch_keys: set[WatchKey]) -> dict[WatchKey, WatchedState] | None:
        if len(watch_keys) > INLINE_LIMIT:
            return None
        return _unless_slow(self._view.watched_states, watch_keys)

    def poll(self, owners: Iterable[str]) -> SessionPoll | None:
        """Poll; own transactions count as changes too, since another connection makes them."""
        return _unless_slow(self._poll, owners)

    def _poll(self, owners: Iterable[str]) -> SessionPoll:
        if (dead := self._view.first_dead(owners)) is not None:
            raise DeadOwnerFound(dead)
        changes = self._database.changes_by_others()
        changed, self._seen_changes = changes != self._seen_changes, changes
        return SessionPoll(session_valid=self._held.is_valid(), changed=changed)

    def close(self) -> None:
        self._database.close()


def _unless_slow(read: Callable[[A], T], argument: A) -> T | None:
    try:
        return read(argument)
    except (DeadOwnerFound, TooManyRecords, CoordinatorUnavailable):
        return None

"""What the loop reads by itself, since to change threads takes longer than to read a few records.

Whoever reads a write-ahead log waits for nobody who writes. Whatever could take long after all
(many records, a file that is locked, keys of a dead session to be removed) is left to the thread.
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
"""So many records, or watch_keys, are read before anyone notices the time."""


class InlineReader:
    """Every answer may be None: then the thread has to look."""

    def __init__(self, path: Path, liveness: SessionFiles, held: HeldSession, session: str) -> None:
        self._held = held
        self._database = Database(path, is_read_only=True)
        self._view = View(self._database, liveness.is_alive, session, limit=INLINE_LIMIT)
        self._seen_changes = -1

    def read(self, key: str) -> tuple[Versioned | None, WatchedState] | None:
        return _unless_it_takes_long(self._view.read, key)

    def children(self, key: str) -> tuple[list[str], WatchedState] | None:
        return _unless_it_takes_long(self._view.children, key)

    def watched_states(self, watch_keys: set[WatchKey]) -> dict[WatchKey, WatchedState] | None:
        if len(watch_keys) > INLINE_LIMIT:
            return None
        return _unless_it_takes_long(self._view.watched_states, watch_keys)

    def look(self, owners: Iterable[str]) -> SessionPoll | None:
        """Here own transactions count as changes too: they are made over another connection."""
        return _unless_it_takes_long(self._look, owners)

    def _look(self, owners: Iterable[str]) -> SessionPoll:
        if (dead := self._view.first_dead(owners)) is not None:
            raise DeadOwnerFound(dead)
        changes = self._database.changes_by_others()
        changed, self._seen_changes = changes != self._seen_changes, changes
        return SessionPoll(session_valid=self._held.is_valid(), changed=changed)

    def close(self) -> None:
        self._database.close()


def _unless_it_takes_long(look: Callable[[A], T], at: A) -> T | None:
    try:
        return look(at)
    except (DeadOwnerFound, TooManyRecords, CoordinatorUnavailable):
        return None

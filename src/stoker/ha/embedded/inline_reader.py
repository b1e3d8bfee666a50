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
from stoker.ha.embedded.liveness import HeldSession, Liveness
from stoker.ha.embedded.view import Departed, Look, TooMany, View
from stoker.ha.watches import Place, Sight

A = TypeVar("A")
T = TypeVar("T")

FEW = 64
"""So many records, or places, are read before anyone notices the time."""


class Glance:
    """Every answer may be None: then the thread has to look."""

    def __init__(self, path: Path, liveness: Liveness, held: HeldSession, session: str) -> None:
        self._held = held
        self._database = Database(path, reads_only=True)
        self._view = View(self._database, liveness.is_alive, session, limit=FEW)
        self._seen_changes = -1

    def read(self, key: str) -> tuple[Versioned | None, Sight] | None:
        return _unless_it_takes_long(self._view.read, key)

    def children(self, key: str) -> tuple[list[str], Sight] | None:
        return _unless_it_takes_long(self._view.children, key)

    def sights(self, places: set[Place]) -> dict[Place, Sight] | None:
        if len(places) > FEW:
            return None
        return _unless_it_takes_long(self._view.sights, places)

    def look(self, owners: Iterable[str]) -> Look | None:
        """Here own transactions count as changes too: they are made over another connection."""
        return _unless_it_takes_long(self._look, owners)

    def _look(self, owners: Iterable[str]) -> Look:
        if (dead := self._view.first_dead(owners)) is not None:
            raise Departed(dead)
        changes = self._database.changes_by_others()
        changed, self._seen_changes = changes != self._seen_changes, changes
        return Look(session_valid=self._held.is_valid(), changed=changed)

    def close(self) -> None:
        self._database.close()


def _unless_it_takes_long(look: Callable[[A], T], at: A) -> T | None:
    try:
        return look(at)
    except (Departed, TooMany, CoordinatorUnavailable):
        return None

"""What a session does in its thread: records and liveness together. Blocking throughout."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.core.errors import SessionExpired
from stoker.ha.coordinator import Op, Versioned
from stoker.ha.embedded.database import Database
from stoker.ha.embedded.liveness import Liveness
from stoker.ha.transaction import Record
from stoker.ha.watches import Aspect, Place, Sight


@dataclass(frozen=True, kw_only=True)
class Look:
    """What an observer of places gets to see."""

    session_valid: bool
    sights: dict[Place, Sight]


class Machine:
    """One session on the shared directory. Whoever meets a key of a dead session removes it."""

    def __init__(self, directory: Path, session: str) -> None:
        self.session = session
        self._own_changes = False
        self._seen_changes = -1
        self._liveness = Liveness(directory / "sessions")
        self._held = self._liveness.begin(session)
        try:
            self._database = Database(directory / "records.sqlite")
        except BaseException:
            self._held.end()
            raise
        try:
            self._bury_the_dead()
        except BaseException:
            self.end()
            raise

    def read(self, key: str) -> tuple[Versioned | None, Sight]:
        record = self._live(key)
        sight = _sight_of(record)
        if record is None:
            return None, sight
        return Versioned(value=record.value, version=record.version, owner=record.owner), sight

    def children(self, key: str) -> tuple[list[str], Sight]:
        lives: dict[str, int] = {}
        owners: set[str] = set()
        for found, created, owner in self._database.below(key):
            if owner is not None and not self._is_alive(owner):
                self._bury(owner)
                continue
            name, _, rest = found[len(key) + 1 :].partition("/")
            lives[name] = 0 if rest else created
            owners.update([owner] if owner else [])
        names = sorted(lives)
        identity = tuple((name, lives[name]) for name in names)
        return names, Sight(identity, frozenset(owners - {self.session}))

    def commit(self, ops: Sequence[Op]) -> list[int]:
        for op in ops:
            self._live(op.key)
        with self._database.exclusively():
            if not self._held.is_valid():
                raise SessionExpired(f"session {self.session} has ended: its file was removed")
            versions = self._database.apply(ops, session=self.session)
        self._own_changes = True
        return versions

    def look(self, places: set[Place], owners: set[str]) -> Look:
        """The places that may have changed since the last look: all or none of them."""
        dead = [owner for owner in sorted(owners) if not self._is_alive(owner)]
        for owner in dead:
            self._bury(owner)
        changes = self._database.changes_by_others()
        sights: dict[Place, Sight] = {}
        if changes != self._seen_changes or self._own_changes:
            self._seen_changes, self._own_changes = changes, False
            sights = {place: self._sight(place) for place in places}
        return Look(session_valid=self._held.is_valid(), sights=sights)

    def end(self) -> None:
        """Its keys go at once, or, if they cannot be written, when somebody meets them."""
        try:
            with self._database.exclusively():
                self._database.remove_keys_of(self.session)
        finally:
            self._held.end()
            self._database.close()

    def _sight(self, place: Place) -> Sight:
        match place.aspect:
            case Aspect.VALUE:
                return self.read(place.key)[1]
            case Aspect.CHILDREN:
                return self.children(place.key)[1]

    def _live(self, key: str) -> Record | None:
        record = self._database.get(key)
        if record is None or record.owner is None or self._is_alive(record.owner):
            return record
        self._bury(record.owner)
        return self._database.get(key)

    def _is_alive(self, session: str) -> bool:
        return session == self.session or self._liveness.is_alive(session)

    def _bury(self, session: str) -> None:
        with self._database.exclusively():
            self._database.remove_keys_of(session)
        self._own_changes = True
        self._liveness.forget(session)

    def _bury_the_dead(self) -> None:
        for session in self._liveness.dead():
            self._bury(session)


def _sight_of(record: Record | None) -> Sight:
    if record is None:
        return Sight(())
    owners = frozenset([record.owner]) if record.owner else frozenset()
    return Sight((record.created, record.version), owners)

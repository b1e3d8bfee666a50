"""What a session does in its thread: records and liveness together. Blocking throughout."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.core.errors import CoordinatorUnavailable, SessionExpired, StokerError
from stoker.ha.coordinator import Check, Create, Delete, Op, Put, Versioned
from stoker.ha.embedded.database import Database
from stoker.ha.embedded.liveness import Liveness
from stoker.ha.transaction import Record
from stoker.ha.watches import Aspect, Place, Sight


@dataclass(frozen=True, kw_only=True)
class Look:
    """What happened since the last one."""

    session_valid: bool
    changed: bool
    """By others, or by the removal of dead sessions: any place may look different."""


class Machine:
    """One session on the shared directory. Whoever meets a key of a dead session removes it."""

    def __init__(self, directory: Path, session: str) -> None:
        self.session = session
        self._buried = False
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

    def commit(self, transactions: Sequence[Sequence[Op]]) -> list[list[int] | StokerError]:
        """Each for itself all or nothing, one after the other; durable together, which costs as
        much as one. Whatever is raised holds for all of them."""
        wanted = [op for ops in transactions for op in ops]
        found = {key: self._live(key) for key in sorted({op.key for op in wanted})}
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
            # It is refused before anything of it is written.
            return refusal

    def look(self, owners: set[str]) -> Look:
        dead = [owner for owner in sorted(owners) if not self._is_alive(owner)]
        for owner in dead:
            self._bury(owner)
        changes = self._database.changes_by_others()
        changed = changes != self._seen_changes or self._buried
        self._seen_changes, self._buried = changes, False
        return Look(session_valid=self._held.is_valid(), changed=changed)

    def sights(self, places: Iterable[Place]) -> dict[Place, Sight]:
        return {place: self._sight(place) for place in places}

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
        self._buried = True
        self._liveness.forget(session)

    def _bury_the_dead(self) -> None:
        for session in self._liveness.dead():
            self._bury(session)


def _outlives_its_session(op: Op, record: Record | None) -> bool:
    """Whether what it changes must be there after a crash of the machine, which ends all sessions.

    One that may come to be at this very moment counts as such.
    """
    match op:
        case Check():
            return False
        case Create(ephemeral=ephemeral):
            return not ephemeral
        case Put() | Delete():
            return record is None or record.owner is None


def _sight_of(record: Record | None) -> Sight:
    if record is None:
        return Sight(())
    owners = frozenset([record.owner]) if record.owner else frozenset()
    return Sight((record.created, record.version), owners)

"""What a session sees of the records, while those of dead sessions may still be among them."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from stoker.ha.coordinator import Versioned
from stoker.ha.embedded.database import Database
from stoker.ha.transaction import Record
from stoker.ha.watches import Aspect, Place, Sight


@dataclass(frozen=True, kw_only=True)
class Look:
    """What happened since the last one."""

    session_valid: bool
    changed: bool
    """Any place may look different."""


class Departed(Exception):
    """A key of a dead session was met: it is to be removed, and then looked again."""

    def __init__(self, session: str) -> None:
        super().__init__(session)
        self.session = session


class TooMany(Exception):
    """There is more to read than was allowed."""


class View:
    """Blocking, as its database is; raises Departed instead of showing what is gone."""

    def __init__(
        self,
        database: Database,
        is_alive: Callable[[str], bool],
        session: str,
        *,
        limit: int | None = None,
    ) -> None:
        self._database = database
        self._others_live = is_alive
        self._session = session
        self._limit = limit

    def record(self, key: str) -> Record | None:
        record = self._database.get(key)
        if record is not None:
            self._check_owner(record.owner)
        return record

    def read(self, key: str) -> tuple[Versioned | None, Sight]:
        record = self.record(key)
        if record is None:
            return None, Sight(())
        owners = frozenset([record.owner]) if record.owner else frozenset()
        sight = Sight((record.created, record.version), owners)
        return Versioned(value=record.value, version=record.version, owner=record.owner), sight

    def children(self, key: str) -> tuple[list[str], Sight]:
        lives: dict[str, int] = {}
        owners: set[str] = set()
        found = self._database.below(key, limit=None if self._limit is None else self._limit + 1)
        if self._limit is not None and len(found) > self._limit:
            raise TooMany
        for each, created, owner in found:
            self._check_owner(owner)
            name, _, rest = each[len(key) + 1 :].partition("/")
            lives[name] = 0 if rest else created
            owners.update([owner] if owner else [])
        names = sorted(lives)
        identity = tuple((name, lives[name]) for name in names)
        return names, Sight(identity, frozenset(owners - {self._session}))

    def sights(self, places: Iterable[Place]) -> dict[Place, Sight]:
        # What is watched belongs to a few sessions; each is asked after once.
        once = View(
            self._database, functools.cache(self._others_live), self._session, limit=self._limit
        )
        return {place: once._sight(place) for place in places}

    def _sight(self, place: Place) -> Sight:
        match place.aspect:
            case Aspect.VALUE:
                return self.read(place.key)[1]
            case Aspect.CHILDREN:
                return self.children(place.key)[1]

    def first_dead(self, sessions: Iterable[str]) -> str | None:
        return next((each for each in sorted(sessions) if not self._is_alive(each)), None)

    def _check_owner(self, owner: str | None) -> None:
        if owner is not None and not self._is_alive(owner):
            raise Departed(owner)

    def _is_alive(self, session: str) -> bool:
        return session == self._session or self._others_live(session)

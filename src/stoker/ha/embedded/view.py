"""The records as a session sees them, while keys of dead sessions may still be among them."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from stoker.ha.coordinator import Versioned
from stoker.ha.embedded.database import Database
from stoker.ha.transaction import Record
from stoker.ha.watches import WatchedState, WatchKey, WatchKind


@dataclass(frozen=True, kw_only=True)
class SessionPoll:
    """Result of a poll: what has happened since the one before."""

    session_valid: bool
    changed: bool
    """Any watched state may have changed."""


class DeadOwnerFound(Exception):
    """A key belongs to a dead session: remove the keys of that session, then read again."""

    def __init__(self, session: str) -> None:
        super().__init__(session)
        self.session = session


class TooManyRecords(Exception):
    """There are more records than the limit allows."""


class View:
    """Blocking reads; raises DeadOwnerFound instead of showing a key of a dead session."""

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

    def read(self, key: str) -> tuple[Versioned | None, WatchedState]:
        record = self.record(key)
        if record is None:
            return None, WatchedState(())
        owners = frozenset([record.owner]) if record.owner else frozenset()
        watched_state = WatchedState((record.created, record.version), owners)
        return Versioned(
            value=record.value, version=record.version, owner=record.owner
        ), watched_state

    def children(self, key: str) -> tuple[list[str], WatchedState]:
        lives: dict[str, int] = {}
        owners: set[str] = set()
        found = self._database.below(key, limit=None if self._limit is None else self._limit + 1)
        if self._limit is not None and len(found) > self._limit:
            raise TooManyRecords
        for each, created, owner in found:
            self._check_owner(owner)
            name, _, rest = each[len(key) + 1 :].partition("/")
            lives[name] = 0 if rest else created
            owners.update([owner] if owner else [])
        names = sorted(lives)
        identity = tuple((name, lives[name]) for name in names)
        return names, WatchedState(identity, frozenset(owners - {self._session}))

    def watched_states(self, watch_keys: Iterable[WatchKey]) -> dict[WatchKey, WatchedState]:
        # The watched keys belong to a few sessions; check each session once.
        once = View(
            self._database, functools.cache(self._others_live), self._session, limit=self._limit
        )
        return {watch_key: once._watched_state(watch_key) for watch_key in watch_keys}

    def _watched_state(self, watch_key: WatchKey) -> WatchedState:
        match watch_key.kind:
            case WatchKind.VALUE:
                return self.read(watch_key.key)[1]
            case WatchKind.CHILDREN:
                return self.children(watch_key.key)[1]

    def first_dead(self, sessions: Iterable[str]) -> str | None:
        return next((each for each in sorted(sessions) if not self._is_alive(each)), None)

    def _check_owner(self, owner: str | None) -> None:
        if owner is not None and not self._is_alive(owner):
            raise DeadOwnerFound(owner)

    def _is_alive(self, session: str) -> bool:
        return session == self._session or self._others_live(session)

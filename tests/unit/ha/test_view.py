"""A session's view of the records of other sessions."""

from pathlib import Path

import pytest

from stoker.ha.coordinator import Create
from stoker.ha.embedded.database import Database
from stoker.ha.embedded.view import DeadOwnerFound, View
from stoker.ha.watches import WatchKey, WatchKind


class Sessions:
    """Tells which sessions are alive, and records which of them were queried."""

    def __init__(self, *alive: str) -> None:
        self.alive = set(alive)
        self.asked: list[str] = []

    def is_alive(self, session: str) -> bool:
        self.asked.append(session)
        return session in self.alive


WATCH_KEYS = [
    WatchKey(WatchKind.VALUE, "a"),
    WatchKey(WatchKind.VALUE, "b"),
    WatchKey(WatchKind.CHILDREN, "c"),
]


@pytest.fixture
def database(tmp_path: Path) -> Database:
    database = Database(tmp_path / "records.sqlite")
    with database.exclusively():
        database.apply([Create(key, b"", ephemeral=True) for key in ("a", "b")], session="one")
        database.apply([Create("c/d", b"", ephemeral=True)], session="two")
    return database


def test_liveness_is_checked_once_per_session_for_all_its_keys(database: Database) -> None:
    sessions = Sessions("one", "two")
    view = View(database, sessions.is_alive, "me")
    assert set(view.watched_states(WATCH_KEYS)) == set(WATCH_KEYS)
    assert sorted(sessions.asked) == ["one", "two"]
    # An answer from before may no longer be true.
    sessions.alive.remove("two")
    with pytest.raises(DeadOwnerFound, match="two"):
        view.watched_states(WATCH_KEYS)

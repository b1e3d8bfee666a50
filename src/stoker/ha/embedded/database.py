"""The records in one SQLite file, shared by the processes of one machine."""

import contextlib
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from stoker.core.errors import ConnectionLost, CoordinatorFull, CoordinatorUnavailable
from stoker.ha.coordinator import Op
from stoker.ha.transaction import Plan, Record, plan

_SCHEMA_VERSION = 1
_BUSY_SECONDS = 5.0
_BUSY_PAUSE = 0.01
_PRIMARY_CODE = 0xFF
"""SQLite's extended result codes carry the primary one in their lowest byte."""


class Database:
    """All methods block, and belong to one thread. They raise CoordinatorUnavailable.

    A read-only database needs a prepared file, and fails at once instead of waiting for a lock.
    """

    def __init__(self, path: Path, *, is_read_only: bool = False) -> None:
        self._path = path
        self._syncs = True
        patience = 0.0 if is_read_only else _BUSY_SECONDS
        with self._translated("opened"):
            self._connection = sqlite3.connect(
                path, timeout=patience, isolation_level=None, check_same_thread=False
            )
        try:
            if is_read_only:
                self._forbid_writing()
            else:
                self._prepare()
        except CoordinatorUnavailable:
            self._connection.close()
            raise

    def _forbid_writing(self) -> None:
        with self._translated("opened"):
            self._connection.execute("PRAGMA query_only=ON")

    def _prepare(self) -> None:
        with self._translated("opened"):
            self._write_ahead()
            self._connection.execute("PRAGMA synchronous=FULL")
        with self.exclusively(), self._translated("prepared"):
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if version == 0:
                # Ids are never reused: by its id, a key that is created again differs from before.
                self._connection.execute(
                    "CREATE TABLE record (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL "
                    "UNIQUE, value BLOB NOT NULL, version INTEGER NOT NULL, owner TEXT)"
                )
                self._connection.execute("CREATE INDEX record_owner ON record (owner)")
                self._connection.execute(f"PRAGMA user_version={_SCHEMA_VERSION}")
            elif version != _SCHEMA_VERSION:
                raise CoordinatorUnavailable(
                    f"{self._path} has records of version {version}, and this release knows "
                    f"version {_SCHEMA_VERSION}; use the release that wrote it"
                )

    def _write_ahead(self) -> None:
        """Switch the journal's mode, which SQLite refuses at once while another process does it."""
        started = time.monotonic()
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode=WAL")
            except sqlite3.OperationalError as error:
                is_busy = error.sqlite_errorcode & _PRIMARY_CODE == sqlite3.SQLITE_BUSY
                if not is_busy or time.monotonic() - started > _BUSY_SECONDS:
                    raise
                time.sleep(_BUSY_PAUSE)
            else:
                return

    def get(self, key: str) -> Record | None:
        with self._translated("read"):
            row = self._connection.execute(
                "SELECT id, value, version, owner FROM record WHERE key = ?", (key,)
            ).fetchone()
        if row is None:
            return None
        created, value, version, owner = row
        return Record(value=bytes(value), version=version, owner=owner, created=created)

    def keys_below(self, key: str) -> Iterable[str]:
        return [found for found, _, _ in self.below(key)]

    def below(self, key: str, *, limit: int | None = None) -> list[tuple[str, int, str | None]]:
        """Key, id and owner of all keys that begin with `key/`, at most `limit` of them."""
        with self._translated("read"):
            # "0" is the character after "/".
            return self._connection.execute(
                "SELECT key, id, owner FROM record WHERE key > ? AND key < ? LIMIT ?",
                (f"{key}/", f"{key}0", -1 if limit is None else limit),
            ).fetchall()

    def apply(self, ops: Sequence[Op], *, session: str) -> list[int]:
        """Call it inside `exclusively`."""
        planned = plan(ops, self, session=session)
        with self._translated("written"):
            self._write(planned)
        return planned.versions

    def _write(self, planned: Plan) -> None:
        for key, written in planned.changes.items():
            if written is None or written.is_new:
                self._connection.execute("DELETE FROM record WHERE key = ?", (key,))
            if written is None:
                continue
            if written.is_new:
                self._connection.execute(
                    "INSERT INTO record (key, value, version, owner) VALUES (?, ?, ?, ?)",
                    (key, written.value, written.version, written.owner),
                )
            else:
                self._connection.execute(
                    "UPDATE record SET value = ?, version = ? WHERE key = ?",
                    (written.value, written.version, key),
                )

    def remove_keys_of(self, session: str) -> None:
        """Call it inside `exclusively`."""
        with self._translated("written"):
            self._connection.execute("DELETE FROM record WHERE owner = ?", (session,))

    def changes_by_others(self) -> int:
        """A number that changes when another connection has committed."""
        with self._translated("read"):
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return int(version)

    @contextlib.contextmanager
    def exclusively(self, *, durable: bool = True) -> Iterator[None]:
        """One transaction: nobody else writes meanwhile, and all of it is durable or nothing.

        Without `durable`, it is visible to all and survives every process, but perhaps not a
        crash of the machine.
        """
        with self._translated("written"):
            self._sync_on_commit(durable)
            self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._roll_back()
            raise
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise self._failed_commit(error) from error

    def _sync_on_commit(self, wanted: bool) -> None:
        """The next durable commit also makes all commits before it durable."""
        if wanted is not self._syncs:
            self._connection.execute(f"PRAGMA synchronous={'FULL' if wanted else 'NORMAL'}")
            self._syncs = wanted

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()

    def _failed_commit(self, error: sqlite3.Error) -> CoordinatorUnavailable | ConnectionLost:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY_CODE
        if code == sqlite3.SQLITE_IOERR:
            # The data may have reached the disk although the kernel reported an error.
            return ConnectionLost(
                f"writing {self._path} failed at its end: {error}; whether it is kept is unknown"
            )
        return self._unavailable("written", error)

    def _unavailable(self, done: str, error: sqlite3.Error) -> CoordinatorUnavailable:
        is_full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        kind = CoordinatorFull if is_full else CoordinatorUnavailable
        return kind(
            f"the coordinator's file {self._path} cannot be {done}: {error}; check the disk's "
            "space and the file's permissions",
            path=str(self._path),
            reason=str(error),
        )

    @contextlib.contextmanager
    def _translated(self, done: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._unavailable(done, error) from error

"""What a transaction does to a set of records.

Pure, and shared by the drivers that keep the records themselves (memory and embedded), so that
they agree on every condition, version and refusal. The ZooKeeper driver uses it to check that no
key is above or below another one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, assert_never

from stoker.core.errors import InvalidInput, KeyExists, NoSuchKey, TooLarge, VersionMismatch
from stoker.ha.coordinator import Check, Create, Delete, Op, Put

MAX_VALUE_BYTES = 512 * 1024


@dataclass(frozen=True, kw_only=True)
class Record:
    value: bytes
    version: int
    owner: str | None
    created: int
    """Differs each time that a key is created, while versions start again at 0."""


class Records(Protocol):
    """The committed state before a transaction."""

    def get(self, key: str) -> Record | None: ...

    def keys_below(self, key: str) -> Iterable[str]:
        """All keys that begin with `key/`."""
        ...


@dataclass(frozen=True, kw_only=True)
class Written:
    """The state of a key that exists after the transaction."""

    value: bytes
    version: int
    owner: str | None
    is_new: bool
    """The transaction created the key: it did not exist before, or was deleted in between."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    versions: list[int]
    changes: dict[str, Written | None]
    """None for a key that does not exist afterwards."""


def plan(ops: Sequence[Op], records: Records, *, session: str) -> Plan:
    """Apply the operations in order; raise for the first one whose condition is not met."""
    draft = _Draft(records=records, session=session)
    return Plan(versions=[draft.apply(op) for op in ops], changes=draft.changes)


def checked_key(key: str) -> str:
    parts = key.split("/")
    if any(part in ("", ".", "..") for part in parts) or not key.isprintable():
        raise InvalidInput(
            f"{key!r} is not a key: write non-empty parts with slashes between them", key=key
        )
    return key


def refuse_ephemeral(ops: Sequence[Op]) -> None:
    """InvalidInput for ephemeral keys, which an auto-renewing coordinator cannot keep."""
    for op in ops:
        if isinstance(op, Create) and op.ephemeral:
            raise InvalidInput(
                f"{op.key} cannot be ephemeral: an auto-renewing coordinator changes its session",
                key=op.key,
            )


def ancestors(key: str) -> list[str]:
    parts = key.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


@dataclass(kw_only=True)
class _Draft:
    records: Records
    session: str
    changes: dict[str, Written | None] = field(default_factory=dict)

    def apply(self, op: Op) -> int:
        checked_key(op.key)
        match op:
            case Check(key, version):
                return self._existing(key, version).version
            case Create(key, value, ephemeral):
                self._create(key, value, self.session if ephemeral else None)
                return 0
            case Put(key, value, version):
                return self._put(key, value, version)
            case Delete(key, version):
                self._existing(key, version)
                self.changes[key] = None
                return -1
            case _:
                assert_never(op)

    def _current(self, key: str) -> Record | Written | None:
        return self.changes[key] if key in self.changes else self.records.get(key)

    def _existing(self, key: str, version: int | None) -> Record | Written:
        current = self._current(key)
        if current is None:
            raise NoSuchKey(key)
        if version is not None and current.version != version:
            raise VersionMismatch(key, version)
        return current

    def _create(self, key: str, value: bytes, owner: str | None) -> None:
        if self._current(key) is not None:
            raise KeyExists(key)
        check_size(key, value)
        self._check_place(key)
        self.changes[key] = Written(value=value, version=0, owner=owner, is_new=True)

    def _put(self, key: str, value: bytes, version: int | None) -> int:
        current = self._existing(key, version)
        check_size(key, value)
        written = Written(
            value=value,
            version=current.version + 1,
            owner=current.owner,
            is_new=isinstance(current, Written) and current.is_new,
        )
        self.changes[key] = written
        return written.version

    def _check_place(self, key: str) -> None:
        """InvalidInput when a key with a value would have keys below it."""
        for ancestor in ancestors(key):
            if self._current(ancestor) is not None:
                raise InvalidInput(f"{key} cannot be below {ancestor}, which has a value", key=key)
        below = set(self.records.keys_below(key))
        below.update(other for other in self.changes if other.startswith(f"{key}/"))
        if any(self._current(other) is not None for other in below):
            raise InvalidInput(f"{key} cannot have a value, since there are keys below it", key=key)


def check_size(key: str, value: bytes) -> None:
    if len(value) > MAX_VALUE_BYTES:
        raise TooLarge(
            f"the value of {key} has {len(value)} bytes, more than {MAX_VALUE_BYTES}; "
            "keep big content in the storage and a pointer here",
            key=key,
        )

"""Watches that were set and have not has_fired: who waits for what, and what they had seen."""

import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from stoker.ha.coordinator import Watch
from stoker.ha.transaction import ancestors

_FEW = 16


class WatchKind(StrEnum):
    VALUE = "value"
    CHILDREN = "children"


class WatchKey(NamedTuple):
    kind: WatchKind
    key: str


def watch_keys_changed_by(key: str) -> Iterator[WatchKey]:
    """What a change of this key may have altered."""
    yield WatchKey(WatchKind.VALUE, key)
    for ancestor in ancestors(key):
        yield WatchKey(WatchKind.CHILDREN, ancestor)


@dataclass(frozen=True)
class WatchedState:
    """The state of a watch key; a watch fires when its identity has changed."""

    identity: tuple[object, ...]
    owners: frozenset[str] = frozenset()
    """Sessions whose end would change it."""


@dataclass(frozen=True)
class _Waiting:
    number: int
    seen: WatchedState
    watch: "weakref.ref[Watch]"


class Watches:
    """Fires in the order in which they were set, so that simulations can be repeated.

    With thousands of jobs each of which waits for a key, no change and no watch may cost a look at
    all of them.
    """

    def __init__(self) -> None:
        self._set: dict[WatchKey, list[_Waiting]] = {}
        self._owners: Counter[str] = Counter()
        self._added = 0
        self._size = 0
        self._wanted = 0
        """How many there were after the last look at all of them."""

    def add(self, watch_key: WatchKey, seen: WatchedState, watch: Watch) -> None:
        # Not for each one: with thousands of jobs that would take longer than all else.
        if self._size >= 2 * self._wanted + _FEW:
            self._drop_unwanted()
        self._added += 1
        self._size += 1
        self._owners.update(seen.owners)
        entry = _Waiting(self._added, seen, weakref.ref(watch))
        self._set.setdefault(watch_key, []).append(entry)

    @property
    def any_wanted(self) -> bool:
        """Whether anybody waits for anything."""
        if any(_waits(entry) for entries in self._set.values() for entry in entries):
            return True
        self._drop_unwanted()
        return False

    def watched_keys(self, touched: Iterable[str] | None = None) -> set[WatchKey]:
        """What somebody waits for; only what a change of the touched keys may have altered."""
        if touched is None:
            self._drop_unwanted()
            return set(self._set)
        return {
            watch_key
            for key in touched
            for watch_key in watch_keys_changed_by(key)
            if any(_waits(entry) for entry in self._set.get(watch_key, ()))
        }

    def owners(self) -> set[str]:
        """Sessions whose end may change what somebody waits for."""
        return set(self._owners)

    def settle(self, now: Mapping[WatchKey, WatchedState]) -> None:
        """Fire those whose watch_key looks different now."""
        due = [
            entry
            for watch_key in now.keys() & self._set.keys()
            for entry in self._set[watch_key]
            if now[watch_key].identity != entry.seen.identity
        ]
        for entry in sorted(due, key=lambda each: each.number):
            _fire(entry)
        for watch_key in now:
            self._keep_the_waiting(watch_key)

    def fire_all(self) -> None:
        has_fired = [entry for entries in self._set.values() for entry in entries]
        self._set = {}
        self._owners.clear()
        self._size = self._wanted = 0
        for entry in sorted(has_fired, key=lambda each: each.number):
            _fire(entry)

    def _drop_unwanted(self) -> None:
        for watch_key in list(self._set):
            self._keep_the_waiting(watch_key)
        self._wanted = self._size

    def _keep_the_waiting(self, watch_key: WatchKey) -> None:
        entries = self._set.get(watch_key)
        if entries is None:
            return
        waiting: list[_Waiting] = []
        for entry in entries:
            if _waits(entry):
                waiting.append(entry)
            else:
                self._owners.subtract(entry.seen.owners)
        if len(waiting) < len(entries):
            self._owners = +self._owners
        self._size -= len(entries) - len(waiting)
        if waiting:
            self._set[watch_key] = waiting
        else:
            del self._set[watch_key]


def _waits(entry: _Waiting) -> bool:
    watch = entry.watch()
    return watch is not None and not watch.has_fired


def _fire(entry: _Waiting) -> None:
    watch = entry.watch()
    if watch is not None:
        watch.fire()

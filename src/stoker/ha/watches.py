"""Watches that have not fired yet, and the state that each reader saw when it set its watch."""

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
    """The watch keys that a change of this key may affect."""
    yield WatchKey(WatchKind.VALUE, key)
    for ancestor in ancestors(key):
        yield WatchKey(WatchKind.CHILDREN, ancestor)


@dataclass(frozen=True)
class WatchedState:
    """The state of a watch key; a watch fires when the `identity` has changed."""

    identity: tuple[object, ...]
    owners: frozenset[str] = frozenset()
    """Sessions whose end would change this state."""


@dataclass(frozen=True)
class _Waiting:
    number: int
    seen: WatchedState
    watch: "weakref.ref[Watch]"


class Watches:
    """Fires watches in the order in which they were set, so that simulations are repeatable.

    Thousands of jobs may each wait for a key, so neither a change nor a new watch may cost a pass
    over all watches.
    """

    def __init__(self) -> None:
        self._set: dict[WatchKey, list[_Waiting]] = {}
        self._owners: Counter[str] = Counter()
        self._added = 0
        self._size = 0
        self._wanted = 0
        """How many watches were left after the last pass over all of them."""

    def add(self, watch_key: WatchKey, seen: WatchedState, watch: Watch) -> None:
        # Not at each call: with thousands of jobs, the pass would take longer than everything else.
        if self._size >= 2 * self._wanted + _FEW:
            self._drop_unwanted()
        self._added += 1
        self._size += 1
        self._owners.update(seen.owners)
        entry = _Waiting(self._added, seen, weakref.ref(watch))
        self._set.setdefault(watch_key, []).append(entry)

    @property
    def any_wanted(self) -> bool:
        """Whether anybody waits for any watch."""
        if any(_waits(entry) for entries in self._set.values() for entry in entries):
            return True
        self._drop_unwanted()
        return False

    def watched_keys(self, touched: Iterable[str] | None = None) -> set[WatchKey]:
        """Keys that somebody waits for; with `touched`, only those that it may affect."""
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
        """Sessions whose end may change a watched state."""
        return set(self._owners)

    def settle(self, now: Mapping[WatchKey, WatchedState]) -> None:
        """Fire the watches whose state has changed."""
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
        due = [entry for entries in self._set.values() for entry in entries]
        self._set = {}
        self._owners.clear()
        self._size = self._wanted = 0
        for entry in sorted(due, key=lambda each: each.number):
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

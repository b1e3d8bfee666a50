"""Watches that were set and have not fired: who waits for what, and what they had seen."""

import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from stoker.ha.coordinator import Watch
from stoker.ha.transaction import ancestors

_FEW = 16


class Aspect(StrEnum):
    VALUE = "value"
    CHILDREN = "children"


class Place(NamedTuple):
    aspect: Aspect
    key: str


def places_touched_by(key: str) -> Iterator[Place]:
    """What a change of this key may have altered."""
    yield Place(Aspect.VALUE, key)
    for ancestor in ancestors(key):
        yield Place(Aspect.CHILDREN, ancestor)


@dataclass(frozen=True)
class Sight:
    """What a place looks like; two sights differ when a watch between them must fire."""

    identity: tuple[object, ...]
    owners: frozenset[str] = frozenset()
    """Sessions whose end would change it."""


@dataclass(frozen=True)
class _Waiting:
    number: int
    seen: Sight
    watch: "weakref.ref[Watch]"


class Watches:
    """Fires in the order in which they were set, so that simulations can be repeated.

    With thousands of jobs each of which waits for a key, no change and no watch may cost a look at
    all of them.
    """

    def __init__(self) -> None:
        self._set: dict[Place, list[_Waiting]] = {}
        self._owners: Counter[str] = Counter()
        self._added = 0
        self._size = 0
        self._wanted = 0
        """How many there were after the last look at all of them."""

    def add(self, place: Place, seen: Sight, watch: Watch) -> None:
        # Not for each one: with thousands of jobs that would take longer than all else.
        if self._size >= 2 * self._wanted + _FEW:
            self._drop_unwanted()
        self._added += 1
        self._size += 1
        self._owners.update(seen.owners)
        entry = _Waiting(self._added, seen, weakref.ref(watch))
        self._set.setdefault(place, []).append(entry)

    @property
    def any_wanted(self) -> bool:
        """Whether anybody waits for anything."""
        if any(_waits(entry) for entries in self._set.values() for entry in entries):
            return True
        self._drop_unwanted()
        return False

    def places(self, touched: Iterable[str] | None = None) -> set[Place]:
        """What somebody waits for; only what a change of the touched keys may have altered."""
        if touched is None:
            self._drop_unwanted()
            return set(self._set)
        return {
            place
            for key in touched
            for place in places_touched_by(key)
            if any(_waits(entry) for entry in self._set.get(place, ()))
        }

    def owners(self) -> set[str]:
        """Sessions whose end may change what somebody waits for."""
        return set(self._owners)

    def settle(self, now: Mapping[Place, Sight]) -> None:
        """Fire those whose place looks different now."""
        due = [
            entry
            for place in now.keys() & self._set.keys()
            for entry in self._set[place]
            if now[place].identity != entry.seen.identity
        ]
        for entry in sorted(due, key=lambda each: each.number):
            _fire(entry)
        for place in now:
            self._keep_the_waiting(place)

    def fire_all(self) -> None:
        fired = [entry for entries in self._set.values() for entry in entries]
        self._set = {}
        self._owners.clear()
        self._size = self._wanted = 0
        for entry in sorted(fired, key=lambda each: each.number):
            _fire(entry)

    def _drop_unwanted(self) -> None:
        for place in list(self._set):
            self._keep_the_waiting(place)
        self._wanted = self._size

    def _keep_the_waiting(self, place: Place) -> None:
        entries = self._set.get(place)
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
            self._set[place] = waiting
        else:
            del self._set[place]


def _waits(entry: _Waiting) -> bool:
    watch = entry.watch()
    return watch is not None and not watch.fired


def _fire(entry: _Waiting) -> None:
    watch = entry.watch()
    if watch is not None:
        watch.fire()

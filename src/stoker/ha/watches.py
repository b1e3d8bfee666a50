"""Watches that were set and have not fired: who waits for what, and what they had seen."""

import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from stoker.ha.coordinator import Watch

_FEW = 16


class Aspect(Enum):
    VALUE = "value"
    CHILDREN = "children"


@dataclass(frozen=True)
class Place:
    aspect: Aspect
    key: str

    def is_touched_by(self, key: str) -> bool:
        match self.aspect:
            case Aspect.VALUE:
                return key == self.key
            case Aspect.CHILDREN:
                return key.startswith(f"{self.key}/")


@dataclass(frozen=True)
class Sight:
    """What a place looks like; two sights differ when a watch between them must fire."""

    identity: tuple[object, ...]
    owners: frozenset[str] = frozenset()
    """Sessions whose end would change it."""


class Watches:
    """Fires in the order in which they were set, so that simulations can be repeated."""

    def __init__(self) -> None:
        self._set: list[tuple[Place, Sight, weakref.ref[Watch]]] = []
        self._wanted = 0
        """How many there were after the last look at all of them."""

    def add(self, place: Place, seen: Sight, watch: Watch) -> None:
        # Not for each one: with thousands of jobs that would take longer than all else.
        if len(self._set) >= 2 * self._wanted + _FEW:
            self._drop_unwanted()
        self._set.append((place, seen, weakref.ref(watch)))

    def places(self, touched: Iterable[str] | None = None) -> set[Place]:
        """What somebody waits for; only what a change of the touched keys may have altered."""
        self._drop_unwanted()
        places = {place for place, _, _ in self._set}
        if touched is None:
            return places
        keys = list(touched)
        return {place for place in places if any(place.is_touched_by(key) for key in keys)}

    def owners(self) -> set[str]:
        return {owner for _, seen, _ in self._set for owner in seen.owners}

    def settle(self, now: Mapping[Place, Sight]) -> None:
        """Fire those whose place looks different now."""
        due = [
            (place, watch)
            for place, seen, watch in self._set
            if place in now and now[place].identity != seen.identity
        ]
        for _, reference in due:
            _fire(reference)
        self._drop_unwanted()

    def fire_all(self) -> None:
        fired, self._set = self._set, []
        for _, _, reference in fired:
            _fire(reference)

    def _drop_unwanted(self) -> None:
        self._set = [entry for entry in self._set if _waits(entry[2])]
        self._wanted = len(self._set)


def _waits(reference: "weakref.ref[Watch]") -> bool:
    watch = reference()
    return watch is not None and not watch.fired


def _fire(reference: "weakref.ref[Watch]") -> None:
    watch = reference()
    if watch is not None:
        watch.fire()

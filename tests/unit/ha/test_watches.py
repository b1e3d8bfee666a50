"""Watches, looked up by key, with any number of them."""

import pytest

from stoker.ha.coordinator import Watch
from stoker.ha.watches import WatchedState, Watches, WatchKey, WatchKind

OLD, NEW = WatchedState((1,)), WatchedState((2,))


def value(key: str) -> WatchKey:
    return WatchKey(WatchKind.VALUE, key)


def children(key: str) -> WatchKey:
    return WatchKey(WatchKind.CHILDREN, key)


def test_a_change_concerns_the_value_of_a_key_and_the_children_of_its_ancestors() -> None:
    watches, kept = Watches(), [Watch() for _ in range(5)]
    watch_keys = [value("a/b/c"), children("a/b"), children("a"), value("a/b"), value("other")]
    for watch_key, watch in zip(watch_keys, kept, strict=True):
        watches.add(watch_key, OLD, watch)
    assert watches.watched_keys(["a/b/c"]) == set(watch_keys[:3])
    assert watches.watched_keys() == set(watch_keys)


def test_only_watches_that_saw_another_state_fire_and_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fired: list[Watch] = []

    def note(watch: Watch) -> None:
        fired.append(watch)

    monkeypatch.setattr(Watch, "fire", note)
    watches, kept = Watches(), [Watch() for _ in range(4)]
    watches.add(value("b"), OLD, kept[0])
    watches.add(value("a"), OLD, kept[1])
    watches.add(value("a"), NEW, kept[2])
    watches.add(value("b"), OLD, kept[3])
    watches.settle({value("a"): NEW, value("b"): NEW, value("nobody"): NEW})
    assert fired == [kept[0], kept[1], kept[3]]


def test_a_watch_without_waiters_is_forgotten() -> None:
    watches, kept = Watches(), Watch()
    watches.add(value("a"), WatchedState((1,), frozenset({"one"})), Watch())
    watches.add(value("a"), WatchedState((1,), frozenset({"one", "two"})), kept)
    assert watches.any_wanted
    assert watches.owners() == {"one", "two"}
    kept.fire()
    assert not watches.any_wanted
    assert watches.watched_keys() == set()
    assert watches.owners() == set()


def test_thousands_of_abandoned_watches_are_not_retained() -> None:
    watches, kept = Watches(), Watch()
    watches.add(value("kept"), OLD, kept)
    for number in range(5000):
        watches.add(value(str(number)), OLD, Watch())
    assert len(watches._set) < 100
    watches.fire_all()
    assert kept.has_fired
    assert not watches.any_wanted

"""Transactions that become durable together."""

from collections.abc import Sequence

import pytest

from stoker.core.errors import ConnectionLost, KeyExists, StokerError
from stoker.ha.coordinator import Check, Create, Op
from stoker.ha.embedded.group_commit import GroupCommit


class EmbeddedSession:
    """Notes what it was given."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.failure: Exception | None = None

    def commit(self, transactions: Sequence[Sequence[Op]]) -> list[list[int] | StokerError]:
        self.batches.append([op.key for ops in transactions for op in ops])
        if self.failure is not None:
            raise self.failure
        return [KeyExists("a") if ops[0].key == "a" else [0] for ops in transactions]


def test_whoever_has_its_turn_takes_along_all_that_wait() -> None:
    machine = EmbeddedSession()
    group = GroupCommit(machine.commit)
    waiting = [group.add([Create(key, b"")]) for key in "bcd"]
    assert [group.carry_out(each) for each in waiting] == [[0], [0], [0]]
    assert machine.batches == [["b", "c", "d"]]
    assert group.carry_out(group.add([Create("e", b"")])) == [0]
    assert machine.batches[1:] == [["e"]]


def test_one_that_is_refused_is_refused_alone() -> None:
    group = GroupCommit(EmbeddedSession().commit)
    refused, accepted = group.add([Create("a", b"")]), group.add([Create("b", b"")])
    assert group.carry_out(accepted) == [0]
    with pytest.raises(KeyExists):
        group.carry_out(refused)


def test_what_breaks_the_write_is_told_to_all_of_them() -> None:
    machine = EmbeddedSession()
    machine.failure = ConnectionLost("the disk is gone")
    group = GroupCommit(machine.commit)
    for each in [group.add([Create("a", b"")]), group.add([Create("b", b"")])]:
        with pytest.raises(ConnectionLost):
            group.carry_out(each)
    assert len(machine.batches) == 1


def test_one_that_was_withdrawn_before_its_turn_never_happens() -> None:
    machine = EmbeddedSession()
    group = GroupCommit(machine.commit)
    withdrawn, other = group.add([Create("b", b"")]), group.add([Create("c", b"")])
    group.withdraw(withdrawn)
    group.carry_out(other)
    assert machine.batches == [["c"]]
    group.withdraw(other)


def test_what_may_change_is_known_until_each_has_its_outcome() -> None:
    group = GroupCommit(EmbeddedSession().commit)
    first, second = group.add([Create("b/c", b"")]), group.add([Create("d", b"")])
    assert group.may_change("b/c")
    assert group.may_change("b"), "something below it may come"
    assert not group.may_change("b/c/d")
    assert not group.may_change("bb")
    group.withdraw(second)
    assert not group.may_change("d"), "it never begins"
    group.carry_out(first)
    assert not group.may_change("b/c")


def test_a_version_that_is_only_checked_does_not_change() -> None:
    group = GroupCommit(EmbeddedSession().commit)
    group.add([Check("epoch", 0), Create("b", b"")])
    assert not group.may_change("epoch")


def test_what_was_withdrawn_under_way_may_still_change() -> None:
    group: GroupCommit

    def withdrawn_meanwhile(transactions: Sequence[Sequence[Op]]) -> list[list[int] | StokerError]:
        group.withdraw(transaction)
        assert group.may_change("b")
        return [[0] for _ in transactions]

    group = GroupCommit(withdrawn_meanwhile)
    transaction = group.add([Create("b", b"")])
    group.carry_out(transaction)
    assert not group.may_change("b")

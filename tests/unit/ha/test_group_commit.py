"""Transactions that become durable together."""

from collections.abc import Sequence

import pytest

from stoker.core.errors import ConnectionLost, KeyExists, StokerError
from stoker.ha.coordinator import Check, Create, Op
from stoker.ha.embedded.group_commit import GroupCommit


class FakeSession:
    """Records the transactions that it is asked to commit."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.failure: Exception | None = None

    def commit(self, transactions: Sequence[Sequence[Op]]) -> list[list[int] | StokerError]:
        self.batches.append([op.key for ops in transactions for op in ops])
        if self.failure is not None:
            raise self.failure
        return [KeyExists("a") if ops[0].key == "a" else [0] for ops in transactions]


def test_one_commit_includes_all_waiting_transactions() -> None:
    session = FakeSession()
    group = GroupCommit(session.commit)
    waiting = [group.add([Create(key, b"")]) for key in "bcd"]
    assert [group.carry_out(each) for each in waiting] == [[0], [0], [0]]
    assert session.batches == [["b", "c", "d"]]
    assert group.carry_out(group.add([Create("e", b"")])) == [0]
    assert session.batches[1:] == [["e"]]


def test_a_refused_transaction_does_not_affect_the_others() -> None:
    group = GroupCommit(FakeSession().commit)
    refused, accepted = group.add([Create("a", b"")]), group.add([Create("b", b"")])
    assert group.carry_out(accepted) == [0]
    with pytest.raises(KeyExists):
        group.carry_out(refused)


def test_a_failed_write_fails_all_transactions_of_the_group() -> None:
    session = FakeSession()
    session.failure = ConnectionLost("the disk is gone")
    group = GroupCommit(session.commit)
    for each in [group.add([Create("a", b"")]), group.add([Create("b", b"")])]:
        with pytest.raises(ConnectionLost):
            group.carry_out(each)
    assert len(session.batches) == 1


def test_a_transaction_cancelled_before_its_turn_is_never_committed() -> None:
    session = FakeSession()
    group = GroupCommit(session.commit)
    withdrawn, other = group.add([Create("b", b"")]), group.add([Create("c", b"")])
    group.withdraw(withdrawn)
    group.carry_out(other)
    assert session.batches == [["c"]]
    group.withdraw(other)


def test_keys_count_as_pending_until_their_transaction_has_an_outcome() -> None:
    group = GroupCommit(FakeSession().commit)
    first, second = group.add([Create("b/c", b"")]), group.add([Create("d", b"")])
    assert group.may_change("b/c")
    assert group.may_change("b"), "a key below b may be created"
    assert not group.may_change("b/c/d")
    assert not group.may_change("bb")
    group.withdraw(second)
    assert not group.may_change("d"), "a withdrawn transaction never begins"
    group.carry_out(first)
    assert not group.may_change("b/c")


def test_a_key_whose_version_is_only_checked_is_not_pending() -> None:
    group = GroupCommit(FakeSession().commit)
    group.add([Check("epoch", 0), Create("b", b"")])
    assert not group.may_change("epoch")


def test_keys_of_a_transaction_cancelled_during_its_commit_stay_pending() -> None:
    group: GroupCommit

    def commit_and_withdraw(transactions: Sequence[Sequence[Op]]) -> list[list[int] | StokerError]:
        group.withdraw(transaction)
        assert group.may_change("b")
        return [[0] for _ in transactions]

    group = GroupCommit(commit_and_withdraw)
    transaction = group.add([Create("b", b"")])
    group.carry_out(transaction)
    assert not group.may_change("b")

"""Transactions that become durable together."""

from collections.abc import Sequence

import pytest

from stoker.core.errors import ConnectionLost, KeyExists, StokerError
from stoker.ha.coordinator import Create, Op
from stoker.ha.embedded.group_commit import GroupCommit


class Machine:
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
    machine = Machine()
    group = GroupCommit(machine.commit)
    waiting = [group.add([Create(key, b"")]) for key in "bcd"]
    assert [group.carry_out(each) for each in waiting] == [[0], [0], [0]]
    assert machine.batches == [["b", "c", "d"]]
    assert group.carry_out(group.add([Create("e", b"")])) == [0]
    assert machine.batches[1:] == [["e"]]


def test_one_that_is_refused_is_refused_alone() -> None:
    group = GroupCommit(Machine().commit)
    refused, accepted = group.add([Create("a", b"")]), group.add([Create("b", b"")])
    assert group.carry_out(accepted) == [0]
    with pytest.raises(KeyExists):
        group.carry_out(refused)


def test_what_breaks_the_write_is_told_to_all_of_them() -> None:
    machine = Machine()
    machine.failure = ConnectionLost("the disk is gone")
    group = GroupCommit(machine.commit)
    for each in [group.add([Create("a", b"")]), group.add([Create("b", b"")])]:
        with pytest.raises(ConnectionLost):
            group.carry_out(each)
    assert len(machine.batches) == 1


def test_one_that_was_withdrawn_before_its_turn_never_happens() -> None:
    machine = Machine()
    group = GroupCommit(machine.commit)
    withdrawn, other = group.add([Create("b", b"")]), group.add([Create("c", b"")])
    group.withdraw(withdrawn)
    group.carry_out(other)
    assert machine.batches == [["c"]]
    group.withdraw(other)

"""Transactions that wait for the thread of their session.

Making one durable takes as long as making many durable together, so whoever has its turn takes all
that wait along.
"""

from collections import deque
from collections.abc import Callable, Sequence

from stoker.core.errors import StokerError
from stoker.ha.coordinator import Op

Outcome = list[int] | BaseException
CommitAll = Callable[[Sequence[Sequence[Op]]], Sequence[list[int] | StokerError]]
"""What it raises holds for all of them."""


class Transaction:
    def __init__(self, ops: Sequence[Op]) -> None:
        self.ops = tuple(ops)
        self.outcome: Outcome | None = None


class GroupCommit:
    """`add` and `withdraw` belong to the loop, `carry_out` to the thread."""

    def __init__(self, commit_all: CommitAll) -> None:
        self._commit_all = commit_all
        self._waiting: deque[Transaction] = deque()

    def add(self, ops: Sequence[Op]) -> Transaction:
        transaction = Transaction(ops)
        self._waiting.append(transaction)
        return transaction

    def withdraw(self, transaction: Transaction) -> None:
        """Nobody waits for it any more: when it has not begun it never will."""
        try:
            self._waiting.remove(transaction)
        except ValueError:
            return

    def carry_out(self, transaction: Transaction) -> list[int]:
        """Together with all others that wait, unless one of them has done so before."""
        if transaction.outcome is None:
            self._carry_out_all()
        outcome = transaction.outcome
        assert outcome is not None, "it was withdrawn"
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def _carry_out_all(self) -> None:
        taken: list[Transaction] = []
        while self._waiting:
            taken.append(self._waiting.popleft())
        outcomes: Sequence[Outcome]
        try:
            outcomes = self._commit_all([each.ops for each in taken])
        except BaseException as error:
            outcomes = [error] * len(taken)
        for each, outcome in zip(taken, outcomes, strict=True):
            each.outcome = outcome

"""Transactions that wait for the thread of their session.

Making one durable takes as long as making many durable together, so whoever has its turn takes all
that wait along.
"""

from collections import deque
from collections.abc import Callable, Sequence

from stoker.core.errors import StokerError
from stoker.ha.coordinator import Check, Op

Outcome = list[int] | BaseException
CommitAll = Callable[[Sequence[Sequence[Op]]], Sequence[list[int] | StokerError]]
"""What it raises holds for all of them."""


class Transaction:
    def __init__(self, ops: Sequence[Op]) -> None:
        self.ops = tuple(ops)
        self.changes = frozenset(op.key for op in ops if not isinstance(op, Check))
        self.outcome: Outcome | None = None


class GroupCommit:
    """`carry_out` belongs to the thread, all else to the loop."""

    def __init__(self, commit_all: CommitAll) -> None:
        self._commit_all = commit_all
        self._waiting: deque[Transaction] = deque()
        self._unsettled: dict[Transaction, None] = {}
        """Also those that nobody waits for any more, as long as they may change something."""

    def add(self, ops: Sequence[Op]) -> Transaction:
        transaction = Transaction(ops)
        self._waiting.append(transaction)
        self._unsettled[transaction] = None
        return transaction

    def withdraw(self, transaction: Transaction) -> None:
        """Nobody waits for it any more: when it has not begun it never will."""
        try:
            self._waiting.remove(transaction)
        except ValueError:
            if transaction.outcome is None:
                return
        self._unsettled.pop(transaction, None)

    def may_change(self, key: str) -> bool:
        """Whether the value of the key, or what is below it, may become another by one of them."""
        for each in [each for each in self._unsettled if each.outcome is not None]:
            del self._unsettled[each]
        return any(
            changed == key or changed.startswith(f"{key}/")
            for each in self._unsettled
            for changed in each.changes
        )

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

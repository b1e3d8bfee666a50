"""Group commit: transactions that wait for the session's thread are committed together.

Making one transaction durable takes as long as making many durable together, so the first one to
run takes all the others along.
"""

from collections import deque
from collections.abc import Callable, Sequence

from stoker.core.errors import StokerError
from stoker.ha.coordinator import Check, Op

Outcome = list[int] | BaseException
CommitAll = Callable[[Sequence[Sequence[Op]]], Sequence[list[int] | StokerError]]
"""Commits several transactions; an error that it raises applies to all of them."""


class Transaction:
    def __init__(self, ops: Sequence[Op]) -> None:
        self.ops = tuple(ops)
        self.changes = frozenset(op.key for op in ops if not isinstance(op, Check))
        self.outcome: Outcome | None = None


class GroupCommit:
    """The thread calls `carry_out`; the loop calls everything else."""

    def __init__(self, commit_all: CommitAll) -> None:
        self._commit_all = commit_all
        self._waiting: deque[Transaction] = deque()
        self._unsettled: dict[Transaction, None] = {}
        """Transactions that may still change something, even if nobody waits for them."""

    def add(self, ops: Sequence[Op]) -> Transaction:
        transaction = Transaction(ops)
        self._waiting.append(transaction)
        self._unsettled[transaction] = None
        return transaction

    def withdraw(self, transaction: Transaction) -> None:
        """Nobody waits for it any more: drop the transaction unless it has begun."""
        try:
            self._waiting.remove(transaction)
        except ValueError:
            if transaction.outcome is None:
                return
        self._unsettled.pop(transaction, None)

    def may_change(self, key: str) -> bool:
        """Whether one of the transactions may change the value of the key, or a key below it."""
        for each in [each for each in self._unsettled if each.outcome is not None]:
            del self._unsettled[each]
        return any(
            changed == key or changed.startswith(f"{key}/")
            for each in self._unsettled
            for changed in each.changes
        )

    def carry_out(self, transaction: Transaction) -> list[int]:
        """Commit it together with all that wait, unless an earlier call has done so."""
        if transaction.outcome is None:
            self._carry_out_all()
        outcome = transaction.outcome
        assert outcome is not None, "it was withdrawn"
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def _carry_out_all(self) -> None:
        batch: list[Transaction] = []
        while self._waiting:
            batch.append(self._waiting.popleft())
        outcomes: Sequence[Outcome]
        try:
            outcomes = self._commit_all([each.ops for each in batch])
        except BaseException as error:
            outcomes = [error] * len(batch)
        for each, outcome in zip(batch, outcomes, strict=True):
            each.outcome = outcome

"""What went wrong in a job, the last so many times. In memory it is bounded, whatever happens."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from stoker.core.ids import AttemptId
from stoker.core.results import FailureRecord


class ExceptionHistory:
    def __init__(self, size: int) -> None:
        self._size = max(0, size)
        self._records: list[FailureRecord] = []

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[FailureRecord]:
        """Oldest first."""
        return iter(self._records)

    def add(self, record: FailureRecord) -> None:
        self._records = [*self._records, record][-self._size :] if self._size else []

    def add_concurrent(self, record: FailureRecord) -> None:
        """It came while the job was already answering another failure, if it was (FAIL-10)."""
        if not self._records:
            return
        *others, root = self._records
        concurrent = (*root.concurrent, record)[: self._size]
        self._records = [*others, msgspec.structs.replace(root, concurrent=concurrent)]

    def recall(self, records: Iterable[FailureRecord]) -> None:
        """What an earlier leader saw, as far as it is on record."""
        for record in sorted(records, key=lambda each: each.at):
            self.add(record)

    def label(self, attempt: AttemptId, labels: Mapping[str, str]) -> None:
        self._records = [_labelled(record, attempt, labels) for record in self._records]

    def newest_first(self) -> tuple[FailureRecord, ...]:
        return tuple(reversed(self._records))


def _labelled(
    record: FailureRecord, attempt: AttemptId, labels: Mapping[str, str]
) -> FailureRecord:
    concurrent = tuple(_labelled(each, attempt, labels) for each in record.concurrent)
    failure = record.failure
    if record.attempt == attempt:
        failure = msgspec.structs.replace(failure, labels={**failure.labels, **labels})
    return msgspec.structs.replace(record, failure=failure, concurrent=concurrent)

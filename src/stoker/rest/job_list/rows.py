"""Rows of the job list: encoded once, ordered, in blocks that are ready to be sent.

A list of ten thousand jobs has four megabytes. Encoding it for each request would take processor
time from the event loop that renews leases and heartbeats, and even joining ready rows copies
megabytes. But nearly all jobs of a long list have ended and never change again.

So each row is encoded when its job changes, rows stand in blocks of at most `MAX_BLOCK_ROWS`, and
in each block the consecutive ended jobs are joined once into one piece that all responses share.
Only the rows of live jobs are joined again each time, since their duration grows.

Invariant: the pieces of all blocks, in order, are all rows, newest first, each with a comma before
it. A change costs one block, not the list.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import msgspec

from stoker.core.results import JobSummary
from stoker.core.values import Millis
from stoker.rest.jobs.job_views import job_overview

MAX_BLOCK_ROWS = 1000
"""A few hundred kilobytes: large enough for a system call, small enough to be rebuilt when one of
its jobs changes."""
MIN_ENDED_RUN = 50
"""Fewer consecutive ended jobs are not worth a piece of their own."""
_encode = msgspec.json.Encoder().encode
_DURATION = b'"duration":'
"""The key in an encoded row. No JSON string contains it: quotes are escaped in strings."""


@dataclass(frozen=True)
class JobRow:
    """A job and its encoded row; the row of a live job has a gap where its duration goes."""

    summary: JobSummary
    head: bytes
    tail: bytes | None = None
    """What follows the duration; None for an ended job, whose row is complete."""

    def encode(self, now: Millis) -> bytes:
        if self.tail is None:
            return self.head
        return b"%b%d%b" % (self.head, max(0, now - self.summary.start), self.tail)

    def encode_with_owner(self, now: Millis) -> bytes:
        """Flink's clients refuse fields that they do not know, so only ours ask for these two."""
        more = (_encode(self.summary.owner), self.summary.restarts)
        return b'%b,"owner":%b,"restarts":%d}' % (self.encode(now)[:-1], *more)


def make_row(job: JobSummary) -> JobRow:
    encoded = _encode(job_overview(job, job.start))
    if job.end is not None:
        return JobRow(job, encoded)
    head, key, tail = encoded.partition(_DURATION)
    return JobRow(job, head + key, tail.removeprefix(b"0"))


def newest_first(job: JobSummary) -> tuple[int, str]:
    """Sort key of the list."""
    return (-job.start, job.job_id)


def _row_key(row: JobRow) -> tuple[int, str]:
    return newest_first(row.summary)


class _Block:
    """Consecutive rows of the list, at least one."""

    def __init__(self, rows: list[JobRow], min_ended_run: int) -> None:
        self.rows = rows
        self._min_ended_run = min_ended_run
        self._runs: list[_Run] = []
        self._is_stale = True

    @property
    def first_key(self) -> tuple[int, str]:
        return _row_key(self.rows[0])

    def add(self, row: JobRow) -> None:
        self.rows.insert(bisect_left(self.rows, _row_key(row), key=_row_key), row)
        self._is_stale = True

    def remove(self, row: JobRow) -> None:
        del self.rows[bisect_left(self.rows, _row_key(row), key=_row_key)]
        self._is_stale = True

    def split(self) -> "list[_Block]":
        middle = len(self.rows) // 2
        halves = (self.rows[:middle], self.rows[middle:])
        return [_Block(rows, self._min_ended_run) for rows in halves]

    def pieces(self, now: Millis) -> list[bytes]:
        if self._is_stale:
            self._runs = self._find_runs()
            self._is_stale = False
        return [run.piece or _join(run.rows, now) for run in self._runs]

    def _find_runs(self) -> "list[_Run]":
        """Ended jobs form a run of their own where enough of them are consecutive."""
        runs: list[_Run] = []
        for has_ended, group in groupby(self.rows, key=_has_ended):
            rows = list(group)
            if has_ended and len(rows) >= min(self._min_ended_run, len(self.rows)):
                runs.append(_Run(rows, self._reusable_piece(rows) or _join(rows, 0)))
            elif runs and runs[-1].piece is None:
                runs[-1].rows.extend(rows)
            else:
                runs.append(_Run(rows))
        return runs

    def _reusable_piece(self, rows: list[JobRow]) -> bytes | None:
        # Unchanged rows are the same objects, so the comparison is fast.
        return next((run.piece for run in self._runs if run.piece and run.rows == rows), None)


@dataclass(frozen=True)
class _Run:
    rows: list[JobRow]
    piece: bytes | None = None
    """The joined rows when all of these jobs have ended, else None."""


def _has_ended(row: JobRow) -> bool:
    return row.tail is None


def _join(rows: list[JobRow], now: Millis) -> bytes:
    """The rows, each with a comma before it."""
    encoded = [row.head if row.tail is None else row.encode(now) for row in rows]
    return b"," + b",".join(encoded)


class JobRows:
    """All rows, newest first, in blocks."""

    def __init__(
        self,
        rows: Iterable[JobRow] = (),
        max_block_rows: int = MAX_BLOCK_ROWS,
        min_ended_run: int = MIN_ENDED_RUN,
    ) -> None:
        """`rows` must be sorted, newest first."""
        self._max_block_rows = max_block_rows
        self._min_ended_run = min_ended_run
        ordered = list(rows)
        self._blocks = [
            _Block(ordered[begin : begin + max_block_rows], min_ended_run)
            for begin in range(0, len(ordered), max_block_rows)
        ]

    def __iter__(self) -> Iterator[JobRow]:
        return (row for block in self._blocks for row in block.rows)

    def add(self, row: JobRow) -> None:
        if not self._blocks:
            self._blocks = [_Block([row], self._min_ended_run)]
            return
        index = self._block_index(row)
        block = self._blocks[index]
        block.add(row)
        if len(block.rows) > self._max_block_rows:
            self._blocks[index : index + 1] = block.split()

    def remove(self, row: JobRow) -> None:
        """The row must be present."""
        index = self._block_index(row)
        self._blocks[index].remove(row)
        if not self._blocks[index].rows:
            del self._blocks[index]

    def _block_index(self, row: JobRow) -> int:
        """The last block that does not begin after the row, or the first of all."""
        after = bisect_right(self._blocks, _row_key(row), key=lambda block: block.first_key)
        return max(0, after - 1)

    def pieces(self, now: Millis) -> list[bytes]:
        return [piece for block in self._blocks for piece in block.pieces(now)]


def json_array(pieces: Sequence[bytes], before: bytes, after: bytes) -> tuple[bytes, ...]:
    """The rows as a JSON array between two texts, without joining the pieces."""
    if not pieces:
        return (before + b"[]" + after,)
    first, *others = pieces
    return (before + b"[" + first[1:], *others, b"]" + after)

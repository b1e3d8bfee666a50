"""What is said of each job in the list, in order, and ready to be sent.

Of jobs that have ended nothing changes any more, and in a long list they are nearly all: blocks of
them are put together once and sent as they are, by every answer.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import msgspec

from stoker.core.results import (
    JobSummary,
)
from stoker.core.values import Millis
from stoker.rest.jobs.job_views import job_overview

MOST_IN_A_BLOCK = 1000
"""A few hundred kilobytes: worth a call to the kernel, and soon made again when one of them
changes."""
LEAST_TOGETHER = 50
"""So many jobs that have ended, one after the other, are worth a piece of their own."""
_encode = msgspec.json.Encoder().encode
_DURATION = b'"duration":'
"""As a key: inside of a text its quotes would have a backslash before them."""


@dataclass(frozen=True)
class ListedJob:
    """A job and what is said of it: of one that lives, all but how long that has been."""

    summary: JobSummary
    head: bytes
    tail: bytes | None = None

    def encoded(self, now: Millis) -> bytes:
        if self.tail is None:
            return self.head
        return b"%b%d%b" % (self.head, max(0, now - self.summary.start), self.tail)


def listed(job: JobSummary) -> ListedJob:
    encoded = _encode(job_overview(job, job.start))
    if job.end is not None:
        return ListedJob(job, encoded)
    head, key, tail = encoded.partition(_DURATION)
    return ListedJob(job, head + key, tail.removeprefix(b"0"))


def place_of(job: JobSummary) -> tuple[int, str]:
    """Newest first."""
    return (-job.start, job.job_id)


def _place_of_listed(job: ListedJob) -> tuple[int, str]:
    return place_of(job.summary)


class _Block:
    """Some that follow each other, never none."""

    def __init__(self, jobs: list[ListedJob], least: int) -> None:
        self.jobs = jobs
        self._least = least
        self._runs: list[_Run] = []
        self._changed = True

    @property
    def first(self) -> tuple[int, str]:
        return place_of(self.jobs[0].summary)

    def add(self, job: ListedJob) -> None:
        place = bisect_left(self.jobs, _place_of_listed(job), key=_place_of_listed)
        self.jobs.insert(place, job)
        self._changed = True

    def remove(self, job: ListedJob) -> None:
        del self.jobs[bisect_left(self.jobs, _place_of_listed(job), key=_place_of_listed)]
        self._changed = True

    def split(self) -> "list[_Block]":
        middle = len(self.jobs) // 2
        return [_Block(jobs, self._least) for jobs in (self.jobs[:middle], self.jobs[middle:])]

    def pieces(self, now: Millis) -> list[bytes]:
        if self._changed:
            self._runs = self._runs_now()
            self._changed = False
        return [run.piece or _piece(run.jobs, now) for run in self._runs]

    def _runs_now(self) -> "list[_Run]":
        """Those that have ended by themselves, where enough of them follow each other."""
        runs: list[_Run] = []
        for has_ended, group in groupby(self.jobs, key=_has_ended):
            jobs = list(group)
            if has_ended and len(jobs) >= min(self._least, len(self.jobs)):
                runs.append(_Run(jobs, self._kept_piece(jobs) or _piece(jobs, 0)))
            elif runs and runs[-1].piece is None:
                runs[-1].jobs.extend(jobs)
            else:
                runs.append(_Run(jobs))
        return runs

    def _kept_piece(self, jobs: list[ListedJob]) -> bytes | None:
        # Where nothing has happened they are the same objects, which is seen at once.
        return next((run.piece for run in self._runs if run.piece and run.jobs == jobs), None)


@dataclass(frozen=True)
class _Run:
    jobs: list[ListedJob]
    piece: bytes | None = None
    """Of those that have all ended."""


def _has_ended(job: ListedJob) -> bool:
    return job.tail is None


def _piece(jobs: list[ListedJob], now: Millis) -> bytes:
    """The rows, each with a comma before it."""
    each = [job.head if job.tail is None else job.encoded(now) for job in jobs]
    return b"," + b",".join(each)


class ListedJobs:
    """Newest first, in blocks."""

    def __init__(
        self,
        jobs: Iterable[ListedJob] = (),
        most: int = MOST_IN_A_BLOCK,
        least: int = LEAST_TOGETHER,
    ) -> None:
        """`jobs` are in their order."""
        self._most = most
        self._least = least
        ordered = list(jobs)
        self._blocks = [
            _Block(ordered[begin : begin + most], least) for begin in range(0, len(ordered), most)
        ]

    def __iter__(self) -> Iterator[ListedJob]:
        return (job for block in self._blocks for job in block.jobs)

    def add(self, job: ListedJob) -> None:
        if not self._blocks:
            self._blocks = [_Block([job], self._least)]
            return
        place = self._block_of(job)
        block = self._blocks[place]
        block.add(job)
        if len(block.jobs) > self._most:
            self._blocks[place : place + 1] = block.split()

    def remove(self, job: ListedJob) -> None:
        """One that is there."""
        place = self._block_of(job)
        self._blocks[place].remove(job)
        if not self._blocks[place].jobs:
            del self._blocks[place]

    def _block_of(self, job: ListedJob) -> int:
        """The last one that does not begin after it, or the first of all."""
        after = bisect_right(self._blocks, _place_of_listed(job), key=lambda block: block.first)
        return max(0, after - 1)

    def pieces(self, now: Millis) -> list[bytes]:
        return [piece for block in self._blocks for piece in block.pieces(now)]


def json_array(pieces: Sequence[bytes], before: bytes, after: bytes) -> tuple[bytes, ...]:
    """Of all of them, in pieces that nobody has to put together."""
    if not pieces:
        return (before + b"[]" + after,)
    first, *others = pieces
    return (before + b"[" + first[1:], *others, b"]" + after)

"""What is said of each job in the list, in order, and ready to be sent.

Of jobs that have ended nothing changes any more, and in a long list they are nearly all: blocks of
them are put together once and sent as they are, by every answer.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from stoker.core.results import JobSummary, Millis
from stoker.rest.gzip_stream import Part
from stoker.rest.job_views import job_overview

MOST_IN_A_BLOCK = 1000
"""A few hundred kilobytes: worth a call to the kernel, and soon made again when one of them
changes."""
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


class Piece:
    """What is said of some that follow each other, each with a comma before it."""

    def __init__(self, content: bytes, *, lasts: bool) -> None:
        self.content = content
        self.lasts = lasts
        """All of them have ended: as long as none comes or goes, it is the same piece."""
        self.asked = 0
        self.part: Part | None = None
        """Of a compressed answer, without the first comma, once it was worth making."""

    @property
    def without_comma(self) -> memoryview:
        return memoryview(self.content)[1:]


class _Block:
    """Some that follow each other, never none."""

    def __init__(self, jobs: list[ListedJob]) -> None:
        self.jobs = jobs
        self._ready: Piece | None = None

    @property
    def first(self) -> tuple[int, str]:
        return place_of(self.jobs[0].summary)

    def add(self, job: ListedJob) -> None:
        place = bisect_left(self.jobs, _place_of_listed(job), key=_place_of_listed)
        self.jobs.insert(place, job)
        self._ready = None

    def remove(self, job: ListedJob) -> None:
        del self.jobs[bisect_left(self.jobs, _place_of_listed(job), key=_place_of_listed)]
        self._ready = None

    def split(self) -> "list[_Block]":
        middle = len(self.jobs) // 2
        return [_Block(self.jobs[:middle]), _Block(self.jobs[middle:])]

    def piece(self, now: Millis) -> Piece:
        if self._ready is not None:
            return self._ready
        each = [job.head if job.tail is None else job.encoded(now) for job in self.jobs]
        lasts = all(job.tail is None for job in self.jobs)
        piece = Piece(b"," + b",".join(each), lasts=lasts)
        if lasts:
            self._ready = piece
        return piece


class ListedJobs:
    """Newest first, in blocks."""

    def __init__(self, jobs: Iterable[ListedJob] = (), most: int = MOST_IN_A_BLOCK) -> None:
        """`jobs` are in their order."""
        self._most = most
        ordered = list(jobs)
        self._blocks = [
            _Block(ordered[begin : begin + most]) for begin in range(0, len(ordered), most)
        ]

    def __iter__(self) -> Iterator[ListedJob]:
        return (job for block in self._blocks for job in block.jobs)

    def add(self, job: ListedJob) -> None:
        if not self._blocks:
            self._blocks = [_Block([job])]
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

    def pieces(self, now: Millis) -> list[Piece]:
        return [block.piece(now) for block in self._blocks]


def json_array(pieces: Sequence[Piece], before: bytes, after: bytes) -> tuple[bytes, ...]:
    """Of all of them, in pieces that nobody has to put together."""
    if not pieces:
        return (before + b"[]" + after,)
    first, *others = [piece.content for piece in pieces]
    return (before + b"[" + first[1:], *others, b"]" + after)

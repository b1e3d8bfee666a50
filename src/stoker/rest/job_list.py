"""The list of all jobs as the REST server keeps it: brought up to date by differences."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from stoker.core.ids import JobId, SessionId
from stoker.core.results import JobSummary, Millis
from stoker.rest.job_views import job_overview

if TYPE_CHECKING:
    from stoker.gateways.dispatcher import DispatcherGateway, JobsSince

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class EndedJob:
    """An ended job and what is said of it, which does not change any more."""

    summary: JobSummary
    encoded: bytes

    @property
    def place(self) -> tuple[int, str]:
        return place_of(self.summary)


def place_of(job: JobSummary) -> tuple[int, str]:
    """Newest first."""
    return (-job.start, job.job_id)


@dataclass
class JobList:
    leader: SessionId | None = None
    revision: int = 0
    live_revision: int = -1
    live: dict[JobId, JobSummary] = field(default_factory=dict)
    _ended: dict[JobId, EndedJob] = field(default_factory=dict)
    _order: list[EndedJob] = field(default_factory=list)
    _encoded: list[bytes] = field(default_factory=list)
    """What the ended ones are, in their order, for lists that are asked for often."""
    _listed: dict[JobId, JobSummary] = field(default_factory=dict)
    _all: list[JobSummary] = field(default_factory=list)
    """Those that are listed, in their order."""

    async def update(self, dispatcher: "DispatcherGateway") -> None:
        self.apply(await dispatcher.jobs_since(self.leader, self.revision, self.live_revision))

    def apply(self, news: "JobsSince") -> None:
        if news.leader == self.leader and self._is_older(news):
            # The answer to an earlier question came later.
            return
        self._apply_ended(news)
        changed = self._apply_live(news)
        if news.whole:
            self._list_all()
        else:
            self._list_again({*changed, *news.removed, *(job.job_id for job in news.ended)})
        self.leader, self.revision = news.leader, news.revision
        self.live_revision = news.live_revision

    def _is_older(self, news: "JobsSince") -> bool:
        return news.revision < self.revision or news.live_revision < self.live_revision

    def _apply_ended(self, news: "JobsSince") -> None:
        if news.whole:
            self._ended = {job.job_id: self._kept(job) for job in news.ended}
            self._order = sorted(self._ended.values(), key=lambda job: job.place)
        else:
            self._change(news.ended, news.removed)
        if news.whole or news.ended or news.removed:
            self._encoded = [job.encoded for job in self._order]

    def _apply_live(self, news: "JobsSince") -> set[JobId]:
        """Those that came, changed or went."""
        told = {job.job_id: job for job in news.live}
        if not news.live_whole:
            self.live.update(told)
            for job_id in news.live_gone:
                self.live.pop(job_id, None)
            return told.keys() | set(news.live_gone)
        before, self.live = self.live, told
        changed = {job_id for job_id, job in told.items() if before.get(job_id) != job}
        return changed | (before.keys() - told.keys())

    def _kept(self, job: JobSummary) -> EndedJob:
        known = self._ended.get(job.job_id)
        if known is not None and known.summary == job:
            return known
        return EndedJob(job, _encode(job_overview(job, job.end or job.start)))

    def _change(self, added: Sequence[JobSummary], removed: Sequence[JobId]) -> None:
        gone = {job.job_id for job in added} | set(removed)
        if gone & self._ended.keys():
            self._order = [job for job in self._order if job.summary.job_id not in gone]
            self._ended = {id_: job for id_, job in self._ended.items() if id_ not in gone}
        for summary in added:
            job = self._kept(summary)
            self._ended[summary.job_id] = job
            insort(self._order, job, key=lambda each: each.place)

    def _list_all(self) -> None:
        ended = {job_id: job.summary for job_id, job in self._ended.items()}
        self._listed = ended | self.live
        self._all = sorted(self._listed.values(), key=place_of)

    def _list_again(self, job_ids: Iterable[JobId]) -> None:
        """Only these have changed: to go through all of them takes longer than all else."""
        for job_id in job_ids:
            before = self._listed.pop(job_id, None)
            if before is not None:
                del self._all[bisect_left(self._all, place_of(before), key=place_of)]
            job = self.live.get(job_id)
            if job is None and job_id in self._ended:
                job = self._ended[job_id].summary
            if job is not None:
                self._listed[job_id] = job
                insort(self._all, job, key=place_of)

    def all(self) -> list[JobSummary]:
        """Newest first, each once."""
        return self._all.copy()

    def encoded(self, jobs: Sequence[JobSummary], now: Millis) -> bytes:
        return b"[" + b",".join(self._each(jobs, now)) + b"]"

    def _each(self, jobs: Sequence[JobSummary], now: Millis) -> Iterator[bytes]:
        live, ended = self.live, self._ended
        for job in jobs:
            if job.job_id in live:
                yield _encode(job_overview(job, now))
            else:
                yield ended[job.job_id].encoded

    def encoded_whole(self, now: Millis, before: bytes = b"", after: bytes = b"") -> bytes:
        """As `encoded(all())`, for a list of thousands that is asked for many times a second.

        What stands before and after it is given here, since every copy of megabytes is felt.
        """
        if self.live.keys() & self._ended.keys():
            return before + self.encoded(self.all(), now) + after
        pieces: list[bytes] = []
        start = 0
        for job in sorted(self.live.values(), key=place_of):
            end = bisect_left(self._order, place_of(job), lo=start, key=lambda each: each.place)
            pieces += self._encoded[start:end]
            pieces.append(_encode(job_overview(job, now)))
            start = end
        pieces += self._encoded[start:]
        if not pieces:
            return before + b"[]" + after
        pieces[0] = before + b"[" + pieces[0]
        pieces[-1] += b"]" + after
        return b",".join(pieces)

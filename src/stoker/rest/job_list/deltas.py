"""The list of all jobs as the REST server keeps it: brought up to date by differences."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stoker.core.ids import JobId, SessionId
from stoker.core.results import (
    JobSummary,
)
from stoker.core.values import Millis
from stoker.rest.job_list.rows import ListedJob, ListedJobs, listed, place_of

if TYPE_CHECKING:
    from stoker.gateways.dispatcher import DispatcherGateway, JobsSince


@dataclass
class JobList:
    leader: SessionId | None = None
    revision: int = 0
    live_revision: int = -1
    live: dict[JobId, JobSummary] = field(default_factory=dict)
    _ended: dict[JobId, JobSummary] = field(default_factory=dict)
    _listed: dict[JobId, ListedJob] = field(default_factory=dict)
    _all: list[JobSummary] = field(default_factory=list)
    """Those that are listed, in their order."""
    _order: ListedJobs = field(default_factory=ListedJobs)
    """The same ones, in the same order."""

    async def ask(self, dispatcher: "DispatcherGateway") -> "JobsSince":
        """What there is to apply."""
        return await dispatcher.jobs_since(self.leader, self.revision, self.live_revision)

    def apply(self, news: "JobsSince") -> None:
        if news.leader == self.leader and self._is_older(news):
            # The answer to an earlier question came later.
            return
        changed = self._apply_live(news)
        if news.whole:
            self._ended = {job.job_id: job for job in news.ended}
            self._list_all()
        else:
            self._ended.update({job.job_id: job for job in news.ended})
            for job_id in news.removed:
                self._ended.pop(job_id, None)
            self._list_again({*changed, *news.removed, *(job.job_id for job in news.ended)})
        self.leader, self.revision = news.leader, news.revision
        self.live_revision = news.live_revision

    def _is_older(self, news: "JobsSince") -> bool:
        return news.revision < self.revision or news.live_revision < self.live_revision

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

    def _list_all(self) -> None:
        """A job that is about to leave may be among both: the live one counts."""
        self._all = sorted((self._ended | self.live).values(), key=place_of)
        kept = [self._kept(job) for job in self._all]
        self._order = ListedJobs(kept)
        self._listed = {job.summary.job_id: job for job in kept}

    def _kept(self, job: JobSummary) -> ListedJob:
        known = self._listed.get(job.job_id)
        return known if known is not None and known.summary == job else listed(job)

    def _list_again(self, job_ids: Iterable[JobId]) -> None:
        """Only these have changed: to go through all of them takes longer than all else."""
        for job_id in job_ids:
            before = self._listed.pop(job_id, None)
            if before is not None:
                del self._all[self._place(before.summary)]
                self._order.remove(before)
            job = self.live.get(job_id) or self._ended.get(job_id)
            if job is not None:
                now = self._listed[job_id] = listed(job)
                self._all.insert(self._place(job), job)
                self._order.add(now)

    def _place(self, job: JobSummary) -> int:
        return bisect_left(self._all, place_of(job), key=place_of)

    def all(self) -> Sequence[JobSummary]:
        """Newest first, each once, as it is until the next update."""
        return self._all

    def living(self) -> Sequence[JobSummary]:
        """Newest first: few of thousands, for those who ask for no others."""
        return sorted(self.live.values(), key=place_of)

    def encoded(self, jobs: Iterable[JobSummary], now: Millis) -> bytes:
        """Of some that are in the list."""
        return b"[%b]" % b",".join([self._listed[job.job_id].encoded(now) for job in jobs])

    def pieces(self, now: Millis) -> list[bytes]:
        """As `encoded(all())`, for a list of thousands that is asked for many times a second.

        Every copy of megabytes is felt: whoever sends them shares them.
        """
        return self._order.pieces(now)

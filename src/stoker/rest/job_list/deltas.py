"""All jobs as the REST server knows them, brought up to date by deltas.

Fetching ten thousand jobs costs the dispatcher, the wire and this process more than all other
requests together, although only a few jobs change between two requests. So the server keeps the
list, and each fetch brings only the changes.

Invariant: after `apply`, `all_jobs()` and the encoded rows hold the same jobs in the same order
(newest first) as a fetch of everything would, except for durations, which depend on the moment.
A delta of another leader is always complete, since its revisions count from a start of their own.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stoker.core.ids import JobId, SessionId
from stoker.core.results import JobSummary
from stoker.core.values import Millis
from stoker.rest.job_list.rows import JobRow, JobRows, make_row, newest_first

if TYPE_CHECKING:
    from stoker.gateways.dispatcher import DispatcherGateway, JobsSince


@dataclass
class JobList:
    leader: SessionId | None = None
    revision: int = 0
    live_revision: int = -1
    live: dict[JobId, JobSummary] = field(default_factory=dict)
    _ended: dict[JobId, JobSummary] = field(default_factory=dict)
    _rows: dict[JobId, JobRow] = field(default_factory=dict)
    _all: list[JobSummary] = field(default_factory=list)
    """All jobs, newest first."""
    _ordered_rows: JobRows = field(default_factory=JobRows)
    """The rows of the same jobs in the same order."""

    async def fetch_delta(self, dispatcher: "DispatcherGateway") -> "JobsSince":
        return await dispatcher.jobs_since(self.leader, self.revision, self.live_revision)

    def apply(self, delta: "JobsSince") -> None:
        if delta.leader == self.leader and self._is_outdated(delta):
            # The answer to an earlier request arrived after that to a later one.
            return
        changed = self._apply_live_jobs(delta)
        if delta.whole:
            self._ended = {job.job_id: job for job in delta.ended}
            self._rebuild()
        else:
            self._ended.update({job.job_id: job for job in delta.ended})
            for job_id in delta.removed:
                self._ended.pop(job_id, None)
            self._update_rows({*changed, *delta.removed, *(job.job_id for job in delta.ended)})
        self.leader, self.revision = delta.leader, delta.revision
        self.live_revision = delta.live_revision

    def _is_outdated(self, delta: "JobsSince") -> bool:
        return delta.revision < self.revision or delta.live_revision < self.live_revision

    def _apply_live_jobs(self, delta: "JobsSince") -> set[JobId]:
        """Returns the jobs that were added, changed or removed."""
        received = {job.job_id: job for job in delta.live}
        if not delta.live_whole:
            self.live.update(received)
            for job_id in delta.live_gone:
                self.live.pop(job_id, None)
            return received.keys() | set(delta.live_gone)
        before, self.live = self.live, received
        changed = {job_id for job_id, job in received.items() if before.get(job_id) != job}
        return changed | (before.keys() - received.keys())

    def _rebuild(self) -> None:
        """A job that is just ending may be in both dictionaries: the live entry counts."""
        self._all = sorted((self._ended | self.live).values(), key=newest_first)
        rows = [self._reuse_or_make_row(job) for job in self._all]
        self._ordered_rows = JobRows(rows)
        self._rows = {row.summary.job_id: row for row in rows}

    def _reuse_or_make_row(self, job: JobSummary) -> JobRow:
        known = self._rows.get(job.job_id)
        return known if known is not None and known.summary == job else make_row(job)

    def _update_rows(self, job_ids: Iterable[JobId]) -> None:
        """Touches only these jobs: a pass over the whole list would cost more than all the rest."""
        for job_id in job_ids:
            before = self._rows.pop(job_id, None)
            if before is not None:
                del self._all[self._position(before.summary)]
                self._ordered_rows.remove(before)
            job = self.live.get(job_id) or self._ended.get(job_id)
            if job is not None:
                row = self._rows[job_id] = make_row(job)
                self._all.insert(self._position(job), job)
                self._ordered_rows.add(row)

    def _position(self, job: JobSummary) -> int:
        return bisect_left(self._all, newest_first(job), key=newest_first)

    def all_jobs(self) -> Sequence[JobSummary]:
        """Each job once, newest first. Valid until the next `apply`."""
        return self._all

    def live_jobs(self) -> Sequence[JobSummary]:
        """Newest first. Usually few among thousands, so queries for them skip the whole list."""
        return sorted(self.live.values(), key=newest_first)

    def encode(self, jobs: Iterable[JobSummary], now: Millis, *, with_owner: bool = False) -> bytes:
        """A JSON array of jobs that are in the list."""
        rows = [self._rows[job.job_id] for job in jobs]
        if with_owner:
            return b"[%b]" % b",".join([row.encode_with_owner(now) for row in rows])
        return b"[%b]" % b",".join([row.encode(now) for row in rows])

    def encode_all(self, now: Millis) -> list[bytes]:
        """The same array for all jobs, as pieces for `json_array`.

        A list of thousands has megabytes and is requested many times a second, so responses share
        the pieces instead of copying them.
        """
        return self._ordered_rows.pieces(now)

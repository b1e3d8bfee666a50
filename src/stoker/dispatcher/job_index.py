"""The job list of the dispatcher: live jobs and ended jobs, each served as differences.

Thousands of jobs may be known, and the REST servers of all masters ask for the list several times
a second. So each index counts its changes (a revision) and remembers the latest of them: a caller
that names the revision it knows gets only the changes since then. When that revision is too old, or
belongs to another leader, the caller gets the whole list.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from itertools import islice

from stoker.core.ids import JobId
from stoker.core.results import JobResult, JobSummary
from stoker.core.states import JobStatus

MAX_CHANGES = 10_000

Summarize = Callable[[JobId], JobSummary | None]
"""Returns None for a job that is no longer live."""

Difference = tuple[list[JobSummary], list[JobId]]
"""Jobs that were added or changed, and the ids of jobs that were removed."""


class _ChangeLog:
    """Which jobs the latest revisions were about."""

    def __init__(self) -> None:
        self.revision = 0
        self._changes: deque[JobId] = deque(maxlen=MAX_CHANGES)

    def append(self, job_id: JobId) -> None:
        self.revision += 1
        self._changes.append(job_id)

    def changed_since(self, revision: int) -> set[JobId] | None:
        """None when the revision is too old, or was never reached here."""
        missed = self.revision - revision
        if not 0 <= missed <= len(self._changes):
            return None
        return set(islice(reversed(self._changes), missed))

    def difference(self, revision: int, summarize: Summarize) -> Difference | None:
        changed = self.changed_since(revision)
        if changed is None:
            return None
        summaries = {job_id: summarize(job_id) for job_id in changed}
        return (
            [summary for summary in summaries.values() if summary is not None],
            [job_id for job_id, summary in summaries.items() if summary is None],
        )


class LiveJobIndex:
    """Summaries of the jobs that have not ended.

    A job is summarized at the next query, however often it has changed until then.
    """

    def __init__(self, summarize: Summarize) -> None:
        self._summarize = summarize
        self._summaries: dict[JobId, JobSummary] = {}
        self._outdated: dict[JobId, None] = {}
        self._log = _ChangeLog()

    def mark_changed(self, job_id: JobId) -> None:
        """The job was added, may have changed, or was removed."""
        self._outdated[job_id] = None

    @property
    def revision(self) -> int:
        """Number of changes so far."""
        self._bring_up_to_date()
        return self._log.revision

    def _bring_up_to_date(self) -> None:
        outdated, self._outdated = self._outdated, {}
        for job_id in outdated:
            self._update(job_id)

    def _update(self, job_id: JobId) -> None:
        before, now = self._summaries.pop(job_id, None), self._summarize(job_id)
        if now is not None:
            self._summaries[job_id] = now
        if now != before:
            self._log.append(job_id)

    def summaries(self) -> list[JobSummary]:
        self._bring_up_to_date()
        return list(self._summaries.values())

    def since(self, revision: int) -> Difference | None:
        """What has changed since the revision; None when that is too long ago."""
        self._bring_up_to_date()
        return self._log.difference(revision, self._summaries.get)


class EndedJobs:
    """The ended jobs whose results are still on record."""

    def __init__(self, results: Iterable[JobResult] = ()) -> None:
        self._results = {result.job_id: result for result in results}
        self._counts = Counter(result.status for result in self._results.values())
        self._log = _ChangeLog()

    @property
    def revision(self) -> int:
        return self._log.revision

    def add(self, result: JobResult) -> None:
        self._forget(result.job_id)
        self._results[result.job_id] = result
        self._counts[result.status] += 1
        self._log.append(result.job_id)

    def remove(self, job_ids: Iterable[JobId]) -> None:
        for job_id in job_ids:
            if self._forget(job_id):
                self._log.append(job_id)

    def _forget(self, job_id: JobId) -> bool:
        result = self._results.pop(job_id, None)
        if result is not None:
            self._counts[result.status] -= 1
        return result is not None

    def since(self, revision: int) -> Difference | None:
        """What has changed since the revision; None when that is too long ago."""
        return self._log.difference(revision, self.summary)

    def get(self, job_id: JobId) -> JobResult | None:
        return self._results.get(job_id)

    def results(self) -> Iterable[JobResult]:
        return self._results.values()

    def count(self, status: JobStatus) -> int:
        return self._counts[status]

    def summaries(self) -> list[JobSummary]:
        return [_summary(result) for result in self._results.values()]

    def summary(self, job_id: JobId) -> JobSummary | None:
        result = self._results.get(job_id)
        return None if result is None else _summary(result)


def _summary(result: JobResult) -> JobSummary:
    return JobSummary(
        job_id=result.job_id,
        name=result.name,
        job_type=result.job_type,
        status=result.status,
        start=result.start,
        end=result.end,
        last_change=result.end,
        tasks=result.tasks,
        owner=result.owner,
        restarts=result.restarts,
    )

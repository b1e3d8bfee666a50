"""The ended jobs that are still known, by their recorded results."""

from collections import deque
from collections.abc import Iterable
from itertools import islice

from stoker.core.ids import JobId
from stoker.core.results import JobResult, JobSummary
from stoker.core.states import JobStatus

MAX_CHANGES = 10_000


class EndedJobs:
    def __init__(self, results: Iterable[JobResult] = ()) -> None:
        self._results = {result.job_id: result for result in results}
        self._changes: deque[JobId] = deque(maxlen=MAX_CHANGES)
        """Which job the last revisions were about."""
        self.revision = 0

    def add(self, result: JobResult) -> None:
        self._results[result.job_id] = result
        self._note(result.job_id)

    def remove(self, job_ids: Iterable[JobId]) -> None:
        for job_id in job_ids:
            if self._results.pop(job_id, None) is not None:
                self._note(job_id)

    def _note(self, job_id: JobId) -> None:
        self.revision += 1
        self._changes.append(job_id)

    def changed_since(self, revision: int) -> set[JobId] | None:
        """The jobs that were added or removed; None when that is too long ago to tell."""
        missed = self.revision - revision
        if not 0 <= missed <= len(self._changes):
            return None
        return set(islice(reversed(self._changes), missed))

    def since(self, revision: int) -> tuple[list[JobSummary], list[JobId]] | None:
        """Those that were added, and those that were removed; None when it is too long ago."""
        changed = self.changed_since(revision)
        if changed is None:
            return None
        found = {job_id: self.summary(job_id) for job_id in changed}
        return (
            [job for job in found.values() if job is not None],
            [job_id for job_id, job in found.items() if job is None],
        )

    def get(self, job_id: JobId) -> JobResult | None:
        return self._results.get(job_id)

    def count(self, status: JobStatus) -> int:
        return sum(result.status is status for result in self._results.values())

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
    )

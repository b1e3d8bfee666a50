"""The ended jobs that are still known, by their recorded results."""

from collections.abc import Iterable

from stoker.core.ids import JobId
from stoker.core.results import JobResult, JobSummary
from stoker.core.states import JobStatus


class EndedJobs:
    def __init__(self, results: Iterable[JobResult] = ()) -> None:
        self._results = {result.job_id: result for result in results}

    def add(self, result: JobResult) -> None:
        self._results[result.job_id] = result

    def remove(self, job_ids: Iterable[JobId]) -> None:
        for job_id in job_ids:
            self._results.pop(job_id, None)

    def get(self, job_id: JobId) -> JobResult | None:
        return self._results.get(job_id)

    def count(self, status: JobStatus) -> int:
        return sum(result.status is status for result in self._results.values())

    def summaries(self) -> list[JobSummary]:
        return [
            JobSummary(
                job_id=result.job_id,
                name=result.name,
                job_type=result.job_type,
                status=result.status,
                start=result.start,
                end=result.end,
                last_change=result.end,
                tasks=result.tasks,
            )
            for result in self._results.values()
        ]

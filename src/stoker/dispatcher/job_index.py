"""The live jobs as they are listed: told by differences, since thousands may live."""

from collections import deque
from collections.abc import Callable
from itertools import islice

from stoker.core.ids import JobId
from stoker.core.results import JobSummary

MAX_CHANGES = 10_000

Summarize = Callable[[JobId], JobSummary | None]
"""None for a job that does not live any more."""


class LiveJobIndex:
    """Looks only at those jobs that it was told of."""

    def __init__(self, summarize: Summarize) -> None:
        self._summarize = summarize
        self._listed: dict[JobId, JobSummary] = {}
        self._untold: dict[JobId, None] = {}
        self._changes: deque[JobId] = deque(maxlen=MAX_CHANGES)
        """Which job the last revisions were about."""
        self._revision = 0

    def changed(self, job_id: JobId) -> None:
        """It has come, is another than before, or has gone."""
        self._untold[job_id] = None

    @property
    def revision(self) -> int:
        untold, self._untold = self._untold, {}
        for job_id in untold:
            self._list_again(job_id)
        return self._revision

    def _list_again(self, job_id: JobId) -> None:
        before, now = self._listed.pop(job_id, None), self._summarize(job_id)
        if now is not None:
            self._listed[job_id] = now
        if now != before:
            self._revision += 1
            self._changes.append(job_id)

    def summaries(self) -> list[JobSummary]:
        """As they were when the revision was looked at last."""
        return list(self._listed.values())

    def since(self, revision: int) -> tuple[list[JobSummary], list[JobId]] | None:
        """Those that have changed, and those that live no more; None when it is too long ago."""
        missed = self.revision - revision
        if not 0 <= missed <= len(self._changes):
            return None
        changed = set(islice(reversed(self._changes), missed))
        return (
            [self._listed[job_id] for job_id in changed if job_id in self._listed],
            [job_id for job_id in changed if job_id not in self._listed],
        )

"""Jobs that nobody drives yet, and whose attempts therefore nobody can replace.

A job in quarantine, or of a leader that is still reading the records, has no master that would
renew the leases of its attempts. The leading process vouches for them meanwhile: a master of the
job that begins later counts a whole lease from its own start.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stoker.core.ids import JobId
from stoker.ha.leadership import Leadership

IsUndriven = Callable[[JobId], bool]


def _all(_job_id: JobId) -> bool:
    return True


class UndrivenJobs:
    """Of a process, through all its leaderships."""

    def __init__(self) -> None:
        self._leadership: Leadership | None = None
        self._is_undriven: IsUndriven = _all

    @contextmanager
    def enter(self, leadership: Leadership) -> Iterator[None]:
        """At first nobody is led: no master of a job has begun."""
        self._leadership, self._is_undriven = leadership, _all
        try:
            yield
        finally:
            self._leadership = None

    def decide_by(self, is_undriven: IsUndriven) -> None:
        """From when on masters of jobs begin."""
        self._is_undriven = is_undriven

    def includes(self, job_id: JobId) -> bool:
        """Only while nobody else can lead, who might lead the job."""
        leadership = self._leadership
        return leadership is not None and leadership.grant.is_certain and self._is_undriven(job_id)

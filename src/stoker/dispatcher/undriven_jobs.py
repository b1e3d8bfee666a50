"""Jobs that no job master drives at the moment, and that no other process can drive either.

Attempts run under leases, which the master of their job renews. A job in quarantine has no master,
nor has any job while a new leader is still reading the records; its attempts would die with their
leases although nothing is wrong with them. So the leading process vouches for such attempts: no
other attempt can replace them, because a job master that starts later counts a whole lease from
its own start before it replaces anything.

Invariant: the process vouches only while it is certain to lead, for otherwise another process
might drive the job.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stoker.core.ids import JobId
from stoker.ha.leadership import Leadership

IsUndriven = Callable[[JobId], bool]


def _every_job(_job_id: JobId) -> bool:
    return True


class UndrivenJobs:
    """Shared by all leaderships of the dispatcher in this process, one after the other."""

    def __init__(self) -> None:
        self._leadership: Leadership | None = None
        self._is_undriven: IsUndriven = _every_job

    @contextmanager
    def enter(self, leadership: Leadership) -> Iterator[None]:
        """Begin a leadership. No job master has started yet, so every job counts as undriven."""
        self._leadership, self._is_undriven = leadership, _every_job
        try:
            yield
        finally:
            self._leadership = None

    def decide_by(self, is_undriven: IsUndriven) -> None:
        """Use this function for each job from now on, because job masters start now."""
        self._is_undriven = is_undriven

    def includes(self, job_id: JobId) -> bool:
        leadership = self._leadership
        return leadership is not None and leadership.grant.is_certain and self._is_undriven(job_id)

"""Attached jobs, which are cancelled when the client that submitted them is gone.

The client sends heartbeats for its job. When none has arrived within the client timeout of the job,
the dispatcher cancels the job. A new leader has no heartbeats yet and gives every client the
whole timeout.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from stoker.core.errors import StokerError
from stoker.core.ids import JobId

log = logging.getLogger(__name__)

CHECK_SECONDS = 1.0


class AttachedClients:
    """Pure: all times are loop times that the caller passes in."""

    def __init__(self) -> None:
        self._deadlines: dict[JobId, float] = {}

    def heartbeat(self, job_id: JobId, deadline: float) -> None:
        """The client of the job has reported and counts as gone from `deadline` on."""
        self._deadlines[job_id] = max(deadline, self._deadlines.get(job_id, deadline))

    def overdue(self, timeouts: Mapping[JobId, float], now: float) -> list[JobId]:
        """Attached jobs whose clients are gone. `timeouts` has every attached job, in seconds."""
        self._deadlines = {
            job_id: self._deadlines.get(job_id, now + seconds)
            for job_id, seconds in timeouts.items()
        }
        return [job_id for job_id, deadline in self._deadlines.items() if deadline <= now]


class AttachedJobs(Protocol):
    def attached_jobs(self) -> Mapping[JobId, float]: ...

    async def cancel_job(self, job_id: JobId) -> None: ...


async def cancel_abandoned_jobs(clients: AttachedClients, jobs: AttachedJobs) -> None:
    """Run as long as the dispatcher leads. A cancellation that fails is retried."""
    while True:
        for job_id in clients.overdue(jobs.attached_jobs(), asyncio.get_running_loop().time()):
            log.warning("job %s is cancelled: its client sends no more heartbeats", job_id)
            try:
                await jobs.cancel_job(job_id)
            except StokerError as error:
                log.warning("job %s is not cancelled yet: %s", job_id, error)
        await asyncio.sleep(CHECK_SECONDS)

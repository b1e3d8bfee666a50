"""Which job is led by which master, and which jobs nobody leads for too long. Pure.

All masters of jobs stand in the same election as the resource manager, so the epoch of a token
says whether its holder is of the present leader; within it the newest registration counts.
"""

from dataclasses import dataclass, field
from datetime import timedelta

from stoker.core.ids import JobId
from stoker.core.tokens import FencingToken


@dataclass
class JobLeaders:
    timeout: timedelta
    _leaders: dict[JobId, FencingToken] = field(default_factory=dict)
    _lost_at: dict[JobId, float] = field(default_factory=dict)

    def leads(self, job_id: JobId, token: FencingToken) -> None:
        """A timeout that ran for the job is void (RM-15)."""
        self._leaders[job_id] = token
        self._lost_at.pop(job_id, None)

    def leader_of(self, job_id: JobId) -> FencingToken | None:
        return self._leaders.get(job_id)

    def is_led_by(self, job_id: JobId, token: FencingToken) -> bool:
        return self._leaders.get(job_id) == token

    def lost(self, job_id: JobId, now: float) -> None:
        """Its master is silent or has left; the job is kept for a while (RM-07)."""
        if self._leaders.pop(job_id, None) is not None:
            self._lost_at[job_id] = now

    def forget(self, job_id: JobId) -> None:
        self._leaders.pop(job_id, None)
        self._lost_at.pop(job_id, None)

    def expired(self, now: float) -> list[JobId]:
        """Those without a master for the timeout: to be removed (RM-14)."""
        patience = self.timeout.total_seconds()
        return [job_id for job_id, lost in self._lost_at.items() if now - lost >= patience]

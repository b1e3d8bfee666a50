"""Admission: which of the accepted jobs run now, and why the others wait. Pure.

A queue may limit how many of its jobs run at the same time and how many slots they use together.
Within a queue, higher priorities go first, then earlier submissions. Waiting raises a priority, so
that no job starves. The first job in line blocks those behind it: a small job never overtakes a
large one for which the queue has no room yet, or the large one might wait for ever.

The order follows from durable facts alone (the time of submission, the graph), so every leader
computes the same order. Admitted jobs count against the limits even when the limits are lower now.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from stoker.core.graph import DEFAULT_QUEUE
from stoker.core.ids import JobId
from stoker.core.priorities import aged_priority
from stoker.core.values import Millis


@dataclass(frozen=True, kw_only=True)
class QueueLimits:
    running_jobs: int | None = None
    slots: int | None = None

    def too_small_for(self, slots: int) -> bool:
        return self.slots is not None and slots > self.slots

    def is_reached_by(self, used: "QueueUsage") -> bool:
        """Whether there is no room even for the smallest job."""
        jobs_full = self.running_jobs is not None and used.jobs >= self.running_jobs
        return jobs_full or (self.slots is not None and used.slots >= self.slots)


@dataclass(frozen=True, kw_only=True)
class QueuedJob:
    job_id: JobId
    queue: str
    slots: int
    """The largest number of slots that the job uses at the same time."""
    submitted_at: Millis
    priority: int = 0
    is_admitted: bool = False
    """Admitted by this leader, or by an earlier one under which it has started attempts."""
    is_cancelled: bool = False
    """Admitted at once, only to end; it uses nothing of the limits."""


@dataclass(frozen=True, kw_only=True)
class QueueUsage:
    """What the admitted jobs of a queue use of its limits."""

    jobs: int = 0
    slots: int = 0

    def with_job(self, job: QueuedJob, count: int) -> "QueueUsage":
        return QueueUsage(jobs=self.jobs + count, slots=self.slots + count * job.slots)


@dataclass(frozen=True, kw_only=True)
class AdmissionPlan:
    admitted: tuple[JobId, ...] = ()
    """Jobs to start now, in this order."""
    waiting: Mapping[JobId, str]
    """The reason for each waiting job, in words; jobs of a queue are in the order of their turn."""


def plan_admission(
    jobs: Iterable[QueuedJob],
    limits: Mapping[str, QueueLimits],
    *,
    now: Millis,
    ageing: timedelta,
    used: Mapping[str, QueueUsage] | None = None,
) -> AdmissionPlan:
    """`used` counts admitted jobs that are not among `jobs`."""
    admitted: list[JobId] = []
    waiting: dict[JobId, str] = {}
    for name, members in by_queue(jobs, limits).items():
        line = _Line(
            name, limits.get(name, QueueLimits()), members, (used or {}).get(name, QueueUsage())
        )
        for job in sorted(line.applicants, key=lambda job: _order_key(job, now, ageing)):
            why = line.why_refused(job)
            if why is None:
                line.admit(job)
                admitted.append(job.job_id)
            else:
                waiting[job.job_id] = why
    return AdmissionPlan(admitted=tuple(admitted), waiting=waiting)


def by_queue(
    jobs: Iterable[QueuedJob], limits: Mapping[str, QueueLimits]
) -> dict[str, list[QueuedJob]]:
    """Jobs of a queue that is no longer configured belong to the default queue."""
    queues: dict[str, list[QueuedJob]] = {name: [] for name in (DEFAULT_QUEUE, *sorted(limits))}
    for job in jobs:
        queues[queue_of(job, limits)].append(job)
    return queues


def queue_of(job: QueuedJob, limits: Mapping[str, QueueLimits]) -> str:
    return job.queue if job.queue in limits else DEFAULT_QUEUE


def _order_key(job: QueuedJob, now: Millis, ageing: timedelta) -> tuple[int, int, Millis, JobId]:
    priority = aged_priority(job.priority, timedelta(milliseconds=now - job.submitted_at), ageing)
    return (not job.is_cancelled, -priority, job.submitted_at, job.job_id)


class _Line:
    """One queue while its applicants are considered, from the first to the last."""

    def __init__(
        self, name: str, limits: QueueLimits, members: Sequence[QueuedJob], used: QueueUsage
    ) -> None:
        self._name = name
        self._limits = limits
        self.applicants = [job for job in members if not job.is_admitted]
        running = [job for job in members if job.is_admitted]
        self._running = used.jobs + len(running)
        self._slots = used.slots + sum(job.slots for job in running)
        self._ahead = 0
        self._blocked = False

    def admit(self, job: QueuedJob) -> None:
        if not job.is_cancelled:
            self._running += 1
            self._slots += job.slots

    def why_refused(self, job: QueuedJob) -> str | None:
        """The reason to keep the job waiting; a job without room blocks those behind it."""
        if job.is_cancelled:
            return None
        if self._limits.too_small_for(job.slots):
            # It can never be admitted, so it must not block the others.
            return (
                f"needs {_count(job.slots, 'slot')} and queue {self._name} has a limit of "
                f"{self._limits.slots}; cancel it, or raise queues.slots for {self._name}"
            )
        full = self._why_full(job)
        if full is None and not self._blocked:
            return None
        reason = full or f"queue {self._name} serves the jobs before it first"
        if self._ahead:
            reason += f"; {_count(self._ahead, 'job')} ahead of it in the queue"
        self._ahead += 1
        self._blocked = True
        return reason

    def _why_full(self, job: QueuedJob) -> str | None:
        limits = self._limits
        if limits.running_jobs is not None and self._running >= limits.running_jobs:
            jobs = _count(limits.running_jobs, "running job")
            return f"queue {self._name} is at its limit of {jobs}"
        if limits.slots is not None and self._slots + job.slots > limits.slots:
            return (
                f"needs {_count(job.slots, 'slot')}, and queue {self._name} has "
                f"{max(0, limits.slots - self._slots)} left of its limit of {limits.slots}"
            )
        return None


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

"""Whose turn it is: which of the accepted jobs begin now, and why the others wait. Pure.

A queue may limit how many of its jobs run at a time and how many slots they use together. Inside
a queue the first come is the first served; a higher priority goes before, and waiting raises a
priority, so that nothing starves. Whoever is first in line blocks those behind it: a small job
never overtakes a large one for which the queue has no room yet.

The order follows from what is durable (when a job was submitted, what its graph says), so a new
leader finds everyone at their place. Jobs that have begun count, whatever the limits say now.
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

    def is_reached_by(self, used: "Used") -> bool:
        """No job, however small, finds room."""
        jobs_full = self.running_jobs is not None and used.jobs >= self.running_jobs
        return jobs_full or (self.slots is not None and used.slots >= self.slots)


@dataclass(frozen=True, kw_only=True)
class QueuedJob:
    job_id: JobId
    queue: str
    slots: int
    """The most that it ever uses at the same time."""
    submitted_at: Millis
    priority: int = 0
    begun: bool = False
    """It was let in, or an earlier leader had let it in and it has left traces."""
    cancelled: bool = False
    """It is let in at once, to end; it uses nothing."""

    @property
    def counts(self) -> bool:
        return self.begun


@dataclass(frozen=True, kw_only=True)
class Used:
    """What the jobs of a queue that have begun use of its limits."""

    jobs: int = 0
    slots: int = 0

    def with_job(self, job: QueuedJob, count: int = 1) -> "Used":
        return Used(jobs=self.jobs + count, slots=self.slots + count * job.slots)


@dataclass(frozen=True, kw_only=True)
class Plan:
    admitted: tuple[JobId, ...] = ()
    """To begin now, in this order."""
    waiting: Mapping[JobId, str]
    """Why, in words; in the order of the line of each queue."""


def plan_admission(
    jobs: Iterable[QueuedJob],
    limits: Mapping[str, QueueLimits],
    *,
    now: Millis,
    ageing: timedelta,
    used: Mapping[str, Used] | None = None,
) -> Plan:
    """`used` counts those that have begun and are not among the jobs."""
    admitted: list[JobId] = []
    waiting: dict[JobId, str] = {}
    for name, members in by_queue(jobs, limits).items():
        line = _Line(name, limits.get(name, QueueLimits()), members, (used or {}).get(name, Used()))
        for job in sorted(line.applicants, key=lambda job: _place(job, now, ageing)):
            why = line.refuses(job)
            if why is None:
                line.admit(job)
                admitted.append(job.job_id)
            else:
                waiting[job.job_id] = why
    return Plan(admitted=tuple(admitted), waiting=waiting)


def by_queue(
    jobs: Iterable[QueuedJob], limits: Mapping[str, QueueLimits]
) -> dict[str, list[QueuedJob]]:
    """A queue that was taken out of the configuration leaves its jobs to the default one."""
    queues: dict[str, list[QueuedJob]] = {name: [] for name in (DEFAULT_QUEUE, *sorted(limits))}
    for job in jobs:
        queues[queue_of(job, limits)].append(job)
    return queues


def queue_of(job: QueuedJob, limits: Mapping[str, QueueLimits]) -> str:
    return job.queue if job.queue in limits else DEFAULT_QUEUE


def _place(job: QueuedJob, now: Millis, ageing: timedelta) -> tuple[int, int, Millis, JobId]:
    priority = aged_priority(job.priority, timedelta(milliseconds=now - job.submitted_at), ageing)
    return (not job.cancelled, -priority, job.submitted_at, job.job_id)


class _Line:
    """One queue while its line is gone through, from the head on."""

    def __init__(
        self, name: str, limits: QueueLimits, members: Sequence[QueuedJob], used: Used
    ) -> None:
        self._name = name
        self._limits = limits
        self.applicants = [job for job in members if not job.begun]
        running = [job for job in members if job.counts]
        self._running = used.jobs + len(running)
        self._slots = used.slots + sum(job.slots for job in running)
        self._ahead = 0
        self._blocked = False

    def admit(self, job: QueuedJob) -> None:
        if not job.cancelled:
            self._running += 1
            self._slots += job.slots

    def refuses(self, job: QueuedJob) -> str | None:
        """The reason, in words; whoever is refused for want of room blocks those behind."""
        if job.cancelled:
            return None
        if self._limits.too_small_for(job.slots):
            # It must not stand in the way of others for ever.
            return (
                f"needs {_count(job.slots, 'slot')} and queue {self._name} has a limit of "
                f"{self._limits.slots}; cancel it, or raise queues.slots for {self._name}"
            )
        full = self._is_full(job)
        if full is None and not self._blocked:
            return None
        words = full or f"queue {self._name} serves those before it first"
        if self._ahead:
            words += f"; {_count(self._ahead, 'job')} of the queue before it"
        self._ahead += 1
        self._blocked = True
        return words

    def _is_full(self, job: QueuedJob) -> str | None:
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

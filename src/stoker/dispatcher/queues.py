"""The queues of one leader: each job enters, waits for its turn, is admitted, and leaves.

`queue_order` decides which jobs are admitted; this module keeps the state and wakes them. Thousands
of jobs may run or wait, so a plan is made only when a job may be admitted or when a wait reason is
requested.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace

from stoker.aio.clock import WallClock
from stoker.core.errors import InvalidInput
from stoker.core.faults import did_you_mean
from stoker.core.graph import DEFAULT_QUEUE, JobGraph
from stoker.core.ids import JobId
from stoker.core.regions import slots_wanted
from stoker.dispatcher.options import QueueOptions
from stoker.dispatcher.queue_order import (
    AdmissionPlan,
    QueuedJob,
    QueueLimits,
    QueueUsage,
    by_queue,
    plan_admission,
    queue_of,
)
from stoker.gateways.dispatcher import QueueOverview
from stoker.gateways.job import JobToRun

log = logging.getLogger(__name__)


def limits_of(options: QueueOptions) -> dict[str, QueueLimits]:
    names = {DEFAULT_QUEUE, *options.names, *options.running_jobs, *options.slots}
    jobs, slots = options.running_jobs, options.slots
    return {
        name: QueueLimits(
            running_jobs=int(jobs[name]) if name in jobs else None,
            slots=int(slots[name]) if name in slots else None,
        )
        for name in sorted(names)
    }


class Queues:
    def __init__(self, options: QueueOptions, wall_clock: WallClock) -> None:
        self._ageing = options.ageing
        self._wall_clock = wall_clock
        self._limits: Mapping[str, QueueLimits] = limits_of(options)
        self._jobs: dict[JobId, QueuedJob] = {}
        self._applicants: dict[JobId, QueuedJob] = {}
        """The jobs that are not admitted yet. Each plan considers only these, because thousands of
        other jobs may be running."""
        self._used: dict[str, QueueUsage] = dict.fromkeys(self._limits, QueueUsage())
        self._turns: dict[JobId, asyncio.Event] = {}
        self._plan = AdmissionPlan(waiting={})
        self._is_outdated = False
        """A job entered without a new plan, so that wait reasons are missing or out of date."""

    def check(self, graph: JobGraph) -> None:
        """Refuse a job that its queue could never admit."""
        limits = self._limits.get(graph.queue)
        if limits is None:
            raise InvalidInput(
                f"there is no queue '{graph.queue}'; {did_you_mean(graph.queue, self._limits)}, or "
                "name it among the options of the cluster (queues.names)",
                queue=graph.queue,
            )
        slots = slots_wanted(graph)
        if limits.too_small_for(slots):
            raise InvalidInput(
                f"the job needs {slots} slots and queue {graph.queue} has a limit of "
                f"{limits.slots}; give the job a limit of its own (slots: {limits.slots}), or use "
                "another queue",
                queue=graph.queue,
            )

    def enter(self, to_run: JobToRun) -> None:
        graph = to_run.graph
        self._turns[graph.job_id] = asyncio.Event()
        job = QueuedJob(
            job_id=graph.job_id,
            queue=graph.queue,
            slots=slots_wanted(graph),
            submitted_at=to_run.submitted_at,
            priority=graph.priority,
            is_cancelled=to_run.cancel_wanted,
        )
        self._jobs[graph.job_id] = self._applicants[graph.job_id] = job
        if to_run.was_admitted:
            self._admit(graph.job_id)
            # The wait reasons of other jobs name more room than there is now.
            self._is_outdated = True
        elif self._is_full(job):
            self._is_outdated = True
        else:
            self._replan()

    def is_admitted(self, job_id: JobId) -> bool:
        return self._turns[job_id].is_set()

    async def wait_for_turn(self, job_id: JobId) -> None:
        await self._turns[job_id].wait()

    def admit_cancelled(self, job_id: JobId) -> None:
        """Admit a waiting job that was cancelled, for its job master to end it."""
        job = self._jobs.get(job_id)
        if job is not None and not job.is_admitted:
            self._jobs[job_id] = self._applicants[job_id] = replace(job, is_cancelled=True)
            self._replan()

    def leave(self, job_id: JobId) -> None:
        job = self._jobs.pop(job_id, None)
        self._applicants.pop(job_id, None)
        self._turns.pop(job_id, None)
        if job is not None and job.is_admitted:
            self._count(job, -1)
        self._replan()

    def why_waiting(self, job_id: JobId) -> str | None:
        return self._waiting().get(job_id)

    def slots_wanted(self, job_id: JobId) -> int:
        job = self._jobs.get(job_id)
        return job.slots if job else 0

    def overview(self, slots_held: Mapping[JobId, int]) -> list[QueueOverview]:
        """`slots_held`: by job, the slots that its tasks have now."""
        queues = by_queue(self._jobs.values(), self._limits)
        waiting = self._waiting()
        return [
            QueueOverview(
                name=name,
                running=sum(job.is_admitted for job in members),
                slots=sum(job.slots for job in members if job.is_admitted),
                slots_in_use=sum(slots_held.get(job.job_id, 0) for job in members),
                waiting_for_slots=sum(
                    job.is_admitted and not slots_held.get(job.job_id) for job in members
                ),
                max_running=self._limits[name].running_jobs,
                max_slots=self._limits[name].slots,
                waiting=tuple(
                    job_id
                    for job_id in waiting
                    if queue_of(self._jobs[job_id], self._limits) == name
                ),
            )
            for name, members in queues.items()
        ]

    def _waiting(self) -> Mapping[JobId, str]:
        if self._is_outdated:
            self._replan()
        return self._plan.waiting

    def _is_full(self, job: QueuedJob) -> bool:
        """Whether no job of its queue can be admitted before another one leaves."""
        queue = queue_of(job, self._limits)
        return not job.is_cancelled and self._limits[queue].is_reached_by(self._used[queue])

    def _replan(self) -> None:
        self._is_outdated = False
        self._plan = plan_admission(
            self._applicants.values(),
            self._limits,
            now=self._wall_clock(),
            ageing=self._ageing,
            used=self._used,
        )
        for job_id in self._plan.admitted:
            self._admit(job_id)

    def _admit(self, job_id: JobId) -> None:
        job = self._jobs[job_id]
        # A job that is admitted only to be cancelled uses nothing of the limits.
        self._jobs[job_id] = replace(job, is_admitted=not job.is_cancelled)
        self._applicants.pop(job_id, None)
        if not job.is_cancelled:
            self._count(job, 1)
        self._turns[job_id].set()

    def _count(self, job: QueuedJob, count: int) -> None:
        queue = queue_of(job, self._limits)
        self._used[queue] = self._used[queue].with_job(job, count)

"""The queues of one leadership: jobs come, wait for their turn, begin, and leave."""

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
    Plan,
    QueuedJob,
    QueueLimits,
    Used,
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
        """Those among them that were not let in yet. Thousands may run: only these are looked at
        each time that a job comes or goes."""
        self._used: dict[str, Used] = dict.fromkeys(self._limits, Used())
        self._turns: dict[JobId, asyncio.Event] = {}
        self._plan = Plan(waiting={})
        self._outdated = False
        """Somebody has come who changes for nobody whose turn it is: only the words are missing."""

    def check(self, graph: JobGraph) -> None:
        """Refuse a job that its queue could never let in."""
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
            cancelled=to_run.cancel_wanted,
        )
        self._jobs[graph.job_id] = self._applicants[graph.job_id] = job
        if to_run.begun:
            self._let_in(graph.job_id)
            # Those who wait have less room left than they were told.
            self._outdated = True
        elif self._is_full(job):
            self._outdated = True
        else:
            self._replan()

    async def wait_for_turn(self, job_id: JobId) -> None:
        await self._turns[job_id].wait()

    def cancelled(self, job_id: JobId) -> None:
        """Whoever still waits begins at once, for its master to end it."""
        job = self._jobs.get(job_id)
        if job is not None and not job.begun:
            self._jobs[job_id] = self._applicants[job_id] = replace(job, cancelled=True)
            self._replan()

    def leave(self, job_id: JobId) -> None:
        job = self._jobs.pop(job_id, None)
        self._applicants.pop(job_id, None)
        self._turns.pop(job_id, None)
        if job is not None and job.counts:
            self._count(job, -1)
        self._replan()

    def why_waiting(self, job_id: JobId) -> str | None:
        return self._waiting().get(job_id)

    def slots_wanted(self, job_id: JobId) -> int:
        job = self._jobs.get(job_id)
        return job.slots if job else 0

    def overview(self) -> list[QueueOverview]:
        queues = by_queue(self._jobs.values(), self._limits)
        waiting = self._waiting()
        return [
            QueueOverview(
                name=name,
                running=sum(job.counts for job in members),
                slots=sum(job.slots for job in members if job.counts),
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
        if self._outdated:
            self._replan()
        return self._plan.waiting

    def _is_full(self, job: QueuedJob) -> bool:
        """Nobody of its queue begins before another one leaves, whoever is first in line."""
        queue = queue_of(job, self._limits)
        return not job.cancelled and self._limits[queue].is_reached_by(self._used[queue])

    def _replan(self) -> None:
        self._outdated = False
        self._plan = plan_admission(
            self._applicants.values(),
            self._limits,
            now=self._wall_clock(),
            ageing=self._ageing,
            used=self._used,
        )
        for job_id in self._plan.admitted:
            self._let_in(job_id)

    def _let_in(self, job_id: JobId) -> None:
        job = self._jobs[job_id]
        # One that is let in to be cancelled runs nothing and takes nobody's place.
        self._jobs[job_id] = replace(job, begun=not job.cancelled)
        self._applicants.pop(job_id, None)
        if not job.cancelled:
            self._count(job, 1)
        self._turns[job_id].set()

    def _count(self, job: QueuedJob, count: int) -> None:
        queue = queue_of(job, self._limits)
        self._used[queue] = self._used[queue].with_job(job, count)

"""What a task executor holds of each job: slots, and the attempts that run in them.

A slot must not go to another job while something still runs in it, and an attempt may need a while
to end. So a slot is given up in two steps: with a running attempt it becomes RELEASING, and the end
of the attempt frees it. An attempt is held until its job master has acknowledged the outcome, which
may be long after its slot is free.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from stoker.aio.scope import TaskScope
from stoker.core.errors import NotFound, Unavailable
from stoker.core.ids import AllocationId, AttemptId, JobId
from stoker.gateways.taskexecutor import TaskDeployment
from stoker.metrics.catalogue import LEASES_EXPIRED
from stoker.taskexecutor.held_task import HeldTask
from stoker.taskexecutor.services import TaskExecutorServices
from stoker.taskexecutor.slots import PersistentSlotTable, SlotUse
from stoker.taskexecutor.tasks import TaskRuns

log = logging.getLogger(__name__)


class JobHoldings:
    def __init__(
        self,
        services: TaskExecutorServices,
        task_scope: TaskScope,
        *,
        on_change: Callable[[JobId], None],
        on_slot_freed: Callable[[], None],
        on_nothing_left: Callable[[JobId], None],
    ) -> None:
        self.slots = PersistentSlotTable(services.options.slots, services.slot_store)
        self.runs = TaskRuns(services.tasks, task_scope, self._task_changed, services.lease)
        self._slot_timeout = services.options.slot_timeout.total_seconds()
        self._tasks: dict[AttemptId, HeldTask] = {}
        self._expired = services.metrics.counter(LEASES_EXPIRED)
        self._on_change = on_change
        self._on_slot_freed = on_slot_freed
        self._on_nothing_left = on_nothing_left
        self._is_stopping = False

    def all_tasks(self) -> list[HeldTask]:
        return list(self._tasks.values())

    def tasks(self, job_id: JobId) -> list[HeldTask]:
        return [task for task in self._tasks.values() if task.job_id == job_id]

    def task(self, attempt: AttemptId) -> HeldTask | None:
        return self._tasks.get(attempt)

    def has_any_of(self, job_id: JobId) -> bool:
        return bool(self.slots.of_job(job_id) or self.tasks(job_id))

    def check_slot(self, allocation: AllocationId, job_id: JobId) -> None:
        if self.slots.job_of(allocation) != job_id:
            raise NotFound(
                f"slot {allocation} is not allocated to job {job_id} here", allocation=allocation
            )

    def start_task(self, deployment: TaskDeployment, lease_until: float) -> None:
        if self._is_stopping or self._is_busy(deployment.allocation):
            raise Unavailable(f"slot {deployment.allocation} cannot run a task now; try again")
        self.slots.activate(deployment.allocation, _loop_time())
        held = HeldTask(deployment, lease_until)
        self._tasks[deployment.attempt] = held
        self.runs.start(held)

    def cancel(self, attempt: AttemptId, reason: str) -> None:
        held = self._tasks.get(attempt)
        if held is not None:
            self.runs.cancel(held, reason)

    def cancel_expired(self, margin_seconds: float) -> None:
        """Cancel attempts whose lease ends within the margin.

        An attempt takes time to end, and must be gone when its lease has run out.
        """
        now = _loop_time()
        for task in self.all_tasks():
            if task.outcome is None and now >= task.lease_until - margin_seconds:
                if task.cancel_reason is None:
                    self._expired.increment()
                self.runs.cancel(task, "its lease has run out")

    def outcome_acknowledged(self, task: HeldTask) -> None:
        self._tasks.pop(task.attempt, None)
        self._finish_release(task.deployment.allocation)
        self._check_nothing_left(task.job_id)

    async def end_tasks(self, reason: str) -> None:
        """Cancel every task, refuse new ones, and return when nothing runs here any more."""
        self._is_stopping = True
        tasks = self.all_tasks()
        for task in tasks:
            # The job is not at fault: the task starts again elsewhere, whatever its restart policy.
            task.is_moving = task.is_moving or task.cancel_reason is None
            self.runs.cancel(task, reason)
        await asyncio.gather(*(task.over.wait() for task in tasks))

    async def wait_until_recorded(self) -> None:
        """Wait until the outcome of every attempt here is on record for its job master."""
        await asyncio.gather(*(task.recorded.wait() for task in self.all_tasks()))

    def reserved(self, job_id: JobId) -> tuple[AllocationId, ...]:
        """Slots to offer: promised to the job, not yet accepted by its master."""
        return tuple(held.id for held in self.slots.of_job(job_id) if held.use is SlotUse.RESERVED)

    def reserve_again(self, job_id: JobId) -> None:
        """Offer accepted slots once more, because a new master may not know of them."""
        self.slots.deactivate(job_id, _loop_time())

    def offer_answered(
        self, job_id: JobId, accepted: Iterable[AllocationId], offered: Iterable[AllocationId]
    ) -> None:
        accepted = set(accepted)
        for allocation in accepted:
            if self.slots.use_of(allocation) is SlotUse.RESERVED:
                self.slots.activate(allocation, _loop_time())
        self.free((each for each in offered if each not in accepted), "its job master declined it")

    def slots_returned(self, job_id: JobId, slots: Iterable[AllocationId]) -> None:
        """Free slots of the job that its master no longer needs."""
        own = (each for each in slots if self.slots.job_of(each) == job_id)
        self.free_idle(own, "no longer needed")

    def abandon_job(self, job_id: JobId, reason: str) -> None:
        """Give up everything of a job whose master does not want this task executor."""
        for task in self.tasks(job_id):
            self.runs.cancel(task, reason)
        self.free((held.id for held in self.slots.of_job(job_id)), reason)

    def free_empty(self, reason: str) -> None:
        """Free the slots for which no attempt is held, not even one that has ended."""
        self.free(
            (each.id for each in self.slots.all() if not self._tasks_of_slot(each.id)), reason
        )

    def free_surplus(self, job_id: JobId, counted: tuple[AllocationId, ...]) -> None:
        surplus = self.slots.surplus(job_id, counted, _loop_time(), self._slot_timeout)
        self.free_idle((held.id for held in surplus), "its job master does not count it any more")

    def free_overdue(self) -> None:
        overdue = self.slots.overdue(_loop_time(), self._slot_timeout)
        reason = f"no job master took it within {self._slot_timeout:.0f} s"
        self.free_idle((held.id for held in overdue), reason)

    def free_idle(self, allocations: Iterable[AllocationId], reason: str) -> None:
        self.free((each for each in allocations if not self._is_busy(each)), reason)

    def free(self, allocations: Iterable[AllocationId], reason: str) -> None:
        freed = False
        for allocation in list(allocations):
            for task in self._tasks_of_slot(allocation):
                self.runs.cancel(task, f"its slot was freed: {reason}")
                if task.outcome is not None:
                    # The outcome is on record in the storage, where the job master looks for it.
                    del self._tasks[task.attempt]
            if self._is_busy(allocation):
                self.slots.release(allocation)
                continue
            job_id = self.slots.job_of(allocation)
            freed = self.slots.free(allocation) or freed
            if job_id is not None:
                self._check_nothing_left(job_id)
        if freed and not self._is_stopping:
            self._on_slot_freed()

    def first_expiry(self) -> float | None:
        """Loop time at which the first lease of a running attempt ends; None if nothing runs."""
        running = (task for task in self._tasks.values() if task.outcome is None)
        return min((task.lease_until for task in running), default=None)

    def jobs_expiring_before(self, moment: float) -> tuple[JobId, ...]:
        """Jobs with a running attempt whose lease ends before this loop time."""
        running = [task for task in self._tasks.values() if task.outcome is None]
        return tuple({task.job_id: None for task in running if task.lease_until < moment})

    def _tasks_of_slot(self, allocation: AllocationId) -> list[HeldTask]:
        return [task for task in self._tasks.values() if task.deployment.allocation == allocation]

    def _is_busy(self, allocation: AllocationId) -> bool:
        return any(task.outcome is None for task in self._tasks_of_slot(allocation))

    def _finish_release(self, allocation: AllocationId) -> None:
        if self.slots.use_of(allocation) is SlotUse.RELEASING:
            self.free([allocation], "its task has ended")

    def _task_changed(self, held: HeldTask) -> None:
        if held.outcome is not None:
            self._finish_release(held.deployment.allocation)
        self._on_change(held.job_id)

    def _check_nothing_left(self, job_id: JobId) -> None:
        if not self.has_any_of(job_id):
            self._on_nothing_left(job_id)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()

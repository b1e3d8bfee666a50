"""The calls of a job master, which task executors and the resource manager use."""

from typing import Protocol

from stoker.core.ids import AllocationId, AttemptId, InstanceId, JobId, RegionId, ResourceId
from stoker.core.results import AttemptOutcome, Progress
from stoker.core.states import ExecutionState
from stoker.core.values import Millis, Value
from stoker.gateways.resourcemanager import Declined


def job_component(job_id: JobId) -> str:
    """Name under which the master of a job contends for leadership and publishes its address."""
    return f"job-{job_id}"


class HeldAttempt(Value):
    """An attempt that a task executor has, running or ended but not yet acknowledged."""

    region: RegionId
    attempt: AttemptId
    number: int
    allocation: AllocationId
    state: ExecutionState
    outcome: AttemptOutcome | None = None


class TaskExecutorIntroduction(Value):
    job_id: JobId
    resource_id: ResourceId
    instance: InstanceId
    address: str
    attempts: tuple[HeldAttempt, ...] = ()
    offered: tuple[AllocationId, ...] = ()
    """Offered as by `offer_slots`, because most executors register to offer a slot."""


class Admitted(Value, tag=True):
    accepted: tuple[AllocationId, ...] = ()
    """The accepted ones of the offered slots. The task executor frees the others."""


AdmissionAnswer = Admitted | Declined


class AttemptReport(Value):
    instance: InstanceId
    attempt: AttemptId
    state: ExecutionState
    at: Millis


class AttemptProgress(Value):
    attempt: AttemptId
    progress: Progress


class JobMasterGateway(Protocol):
    """Fenced by the job master's own leadership."""

    async def register_task_executor(
        self, introduction: TaskExecutorIntroduction
    ) -> AdmissionAnswer:
        """A task may arrive at the task executor before the answer does."""
        ...

    async def offer_slots(
        self, instance: InstanceId, allocations: tuple[AllocationId, ...]
    ) -> tuple[AllocationId, ...]:
        """Returns the accepted ones. The task executor frees the others."""
        ...

    async def attempt_changed(self, report: AttemptReport) -> bool:
        """False when the attempt is unknown here or no longer the current one."""
        ...

    async def attempt_ended(
        self, instance: InstanceId, outcome: AttemptOutcome, before: AttemptReport | None
    ) -> tuple[AllocationId, ...]:
        """The caller repeats this until it is answered. Returns slots that the job does not need.

        `before` is the last state before the end, if the attempt ended before that was reported.
        """
        ...

    async def attempts_progressed(
        self, instance: InstanceId, reports: tuple[AttemptProgress, ...]
    ) -> None: ...

    async def renew_leases(
        self, instance: InstanceId, attempts: tuple[AttemptId, ...]
    ) -> tuple[AttemptId, ...]:
        """Returns the attempts that may continue; a lease counts from when the call was sent."""
        ...

    async def task_executor_lost(
        self, resource_id: ResourceId, instance: InstanceId, reason: str
    ) -> None:
        """The resource manager declares this instance of the task executor dead."""
        ...

    async def heartbeat_from_resource_manager(self) -> None: ...

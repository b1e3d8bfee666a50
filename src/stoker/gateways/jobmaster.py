"""What task executors and the resource manager ask of a job's master."""

from typing import Protocol

from stoker.core.ids import AllocationId, AttemptId, InstanceId, JobId, RegionId, ResourceId
from stoker.core.results import (
    AttemptOutcome,
    Progress,
)
from stoker.core.states import ExecutionState
from stoker.core.values import Millis, Value
from stoker.gateways.resourcemanager import Declined


def job_component(job_id: JobId) -> str:
    """The name under which a job's master stands for election and publishes its address."""
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
    """As by `offer_slots`: most task executors register since they have a slot for the job."""


class Admitted(Value, tag=True):
    accepted: tuple[AllocationId, ...] = ()
    """Of the slots offered; the others are to be freed."""


AdmissionAnswer = Admitted | Declined


class AttemptReport(Value):
    instance: InstanceId
    attempt: AttemptId
    state: ExecutionState
    at: Millis


class ProgressReport(Value):
    attempt: AttemptId
    progress: Progress


class JobMasterGateway(Protocol):
    """Fenced by the job master's own leadership."""

    async def register_task_executor(
        self, introduction: TaskExecutorIntroduction
    ) -> AdmissionAnswer:
        """A task may be on its way before the answer is."""
        ...

    async def offer_slots(
        self, instance: InstanceId, allocations: tuple[AllocationId, ...]
    ) -> tuple[AllocationId, ...]:
        """The accepted ones; the others are to be freed."""
        ...

    async def attempt_changed(self, report: AttemptReport) -> bool:
        """False: the attempt is unknown here, or no longer the current one."""
        ...

    async def attempt_ended(
        self, instance: InstanceId, outcome: AttemptOutcome, before: AttemptReport | None
    ) -> tuple[AllocationId, ...]:
        """Repeated until answered. Gives slots back that the job needs no longer.

        `before` is the state before the end, of an attempt that was over before it was told.
        """
        ...

    async def attempts_progressed(
        self, instance: InstanceId, reports: tuple[ProgressReport, ...]
    ) -> None: ...

    async def renew_leases(
        self, instance: InstanceId, attempts: tuple[AttemptId, ...]
    ) -> tuple[AttemptId, ...]:
        """Those that may go on. The lease counts from when the question was sent."""
        ...

    async def task_executor_lost(
        self, resource_id: ResourceId, instance: InstanceId, reason: str
    ) -> None:
        """The resource manager's word that this life of the task executor is over."""
        ...

    async def heartbeat_from_resource_manager(self) -> None: ...

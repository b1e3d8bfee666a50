"""The calls of the leading resource manager, which task executors and job masters use."""

from typing import Protocol

from stoker.core.graph import ResourceProfile
from stoker.core.ids import AllocationId, InstanceId, JobId, ResourceId
from stoker.core.states import JobStatus
from stoker.core.values import FencingToken, Value

RESOURCE_MANAGER = "resource_manager"


class Registered(Value, tag=True):
    pass


class Declined(Value, tag=True):
    reason: str
    final: bool = False
    """Whether another request would be declined for the same reason."""


RegistrationAnswer = Registered | Declined


class SlotStatus(Value):
    index: int
    job_id: JobId | None = None
    allocation: AllocationId | None = None


class SlotReport(Value):
    slots: tuple[SlotStatus, ...]


class TaskExecutorRegistration(Value):
    resource_id: ResourceId
    instance: InstanceId
    address: str
    report: SlotReport
    host: str = ""
    pid: int = 0
    cores: int = 0
    memory_bytes: int = 0
    engine: dict[str, str] = {}
    on_demand: bool = False
    """Whether a provider started the executor; it is released when no job needs it."""
    draining: bool = False
    """Whether the executor takes no new task and ends after those that it has."""
    metrics_url: str = ""
    """Where the process shows its metrics; empty if nowhere."""


class ResourceRequirements(Value):
    """Everything that a job needs now. Each declaration replaces the previous one."""

    job_id: JobId
    token: FencingToken
    slots: int
    held: int = 0
    """Slots that the job master has, perhaps on executors that the resource manager has lost."""
    together: int = 0
    """With fewer slots in total no part of the job can start, so these are assigned together."""
    priority: int = 0
    profile: ResourceProfile = ResourceProfile()


class JobMasterRegistration(Value):
    job_id: JobId
    token: FencingToken
    address: str
    requirements: ResourceRequirements | None = None
    """The first declaration, which saves a call."""


class WaitReason(Value):
    """Why a job lacks slots."""

    text: str
    slots_obtainable: bool
    """The slots exist or can be started; other jobs may hold them at the moment."""


class ResourceOverview(Value):
    task_executors: int = 0
    slots_total: int = 0
    slots_free: int = 0
    starting: int = 0
    """Task executors that a provider has started and that have not registered yet."""


class TaskExecutorDetails(Value):
    resource_id: ResourceId
    instance: InstanceId
    address: str
    slots_total: int
    slots_free: int
    last_heartbeat: int
    """Milliseconds since 1970."""
    host: str = ""
    pid: int = 0
    cores: int = 0
    memory_bytes: int = 0
    engine: dict[str, str] = {}
    jobs: tuple[JobId, ...] = ()
    on_demand: bool = False
    draining: bool = False
    metrics_url: str = ""


class ResourceManagerGateway(Protocol):
    """Fenced by the resource manager's leadership."""

    async def register_task_executor(
        self, registration: TaskExecutorRegistration
    ) -> RegistrationAnswer: ...

    async def task_executor_leaves(self, instance: InstanceId, reason: str) -> None: ...

    async def slot_freed(self, instance: InstanceId, report: SlotReport) -> None:
        """A slot became free. The report is the complete state afterwards."""
        ...

    async def register_job_master(
        self, registration: JobMasterRegistration
    ) -> RegistrationAnswer: ...

    async def declare_requirements(self, requirements: ResourceRequirements) -> None: ...

    async def job_master_leaves(
        self, job_id: JobId, token: FencingToken, status: JobStatus
    ) -> None:
        """Forget the job if the status is globally terminal; otherwise retain its requirements."""
        ...

    async def wait_reason(self, job_id: JobId) -> WaitReason | None:
        """What the missing slots of the job wait for; None when it has all that it asked for."""
        ...

    async def drain_task_executor(self, resource_id: ResourceId, seconds: float | None) -> None:
        """The executor takes no new task and ends when its tasks are over.

        Streaming tasks restart elsewhere from their checkpoint. Other tasks may finish; those that
        have not finished within the given seconds restart elsewhere from the beginning. A
        repetition is harmless and may shorten the time. NotFound for an unknown executor.
        """
        ...

    async def overview(self) -> ResourceOverview: ...

    async def task_executors(self) -> list[TaskExecutorDetails]: ...

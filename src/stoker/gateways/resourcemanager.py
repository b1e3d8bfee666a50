"""What task executors and job masters ask of the leading resource manager."""

from typing import Protocol

from stoker.core.graph import (
    ResourceProfile,
)
from stoker.core.ids import AllocationId, InstanceId, JobId, ResourceId
from stoker.core.states import JobStatus
from stoker.core.values import FencingToken, Value

RESOURCE_MANAGER = "resource_manager"


class Registered(Value, tag=True):
    pass


class Declined(Value, tag=True):
    reason: str
    final: bool = False
    """True: asking again cannot help."""


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
    """Started by a provider, and released again when nothing needs it."""
    draining: bool = False
    """It leaves when its tasks are over, and takes no others."""


class ResourceRequirements(Value):
    """All that a job needs now; each declaration replaces the one before."""

    job_id: JobId
    token: FencingToken
    slots: int
    held: int = 0
    """Those of them that the master has; some may be where the resource manager sees nobody."""
    together: int = 0
    """With fewer in all nothing of the job starts: what is missing to that many comes at once."""
    priority: int = 0
    profile: ResourceProfile = ResourceProfile()


class JobMasterRegistration(Value):
    job_id: JobId
    token: FencingToken
    address: str
    requirements: ResourceRequirements | None = None
    """The first ones."""


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
    """Task executors that a provider has started and that are not registered yet."""


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


class ResourceManagerGateway(Protocol):
    """Fenced by the resource manager's leadership."""

    async def register_task_executor(
        self, registration: TaskExecutorRegistration
    ) -> RegistrationAnswer: ...

    async def task_executor_leaves(self, instance: InstanceId, reason: str) -> None: ...

    async def slot_freed(self, instance: InstanceId, report: SlotReport) -> None:
        """A slot became free; the report is the whole state afterwards."""
        ...

    async def register_job_master(
        self, registration: JobMasterRegistration
    ) -> RegistrationAnswer: ...

    async def declare_requirements(self, requirements: ResourceRequirements) -> None: ...

    async def job_master_leaves(
        self, job_id: JobId, token: FencingToken, status: JobStatus
    ) -> None:
        """Globally terminal: the job is forgotten. Otherwise its requirements are retained."""
        ...

    async def wait_reason(self, job_id: JobId) -> WaitReason | None:
        """What the missing slots of the job wait for; None when it has all that it asked for."""
        ...

    async def drain_task_executor(self, resource_id: ResourceId, seconds: float | None) -> None:
        """No new tasks there; it ends when those it has are over.

        Streaming tasks begin again elsewhere from their checkpoint. Others finish; those that
        have not within the given seconds begin anew elsewhere. Again is harmless, and a shorter
        time counts. NotFound for an unknown one.
        """
        ...

    async def overview(self) -> ResourceOverview: ...

    async def task_executors(self) -> list[TaskExecutorDetails]: ...

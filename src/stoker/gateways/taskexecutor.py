"""What the resource manager and job masters ask of a task executor."""

from typing import Protocol

from stoker.core.graph import JobGraph, Value
from stoker.core.ids import AllocationId, AttemptId, JobId, RegionId
from stoker.core.tokens import FencingToken
from stoker.gateways.resourcemanager import SlotReport


class SlotRequest(Value):
    job_id: JobId
    allocation: AllocationId
    slot: int


class TaskDeployment(Value):
    graph: JobGraph
    region: RegionId
    attempt: AttemptId
    number: int
    allocation: AllocationId


class TaskExecutorGateway(Protocol):
    """Not fenced as a whole: each call names the leadership that commands it."""

    async def request_slot(self, token: FencingToken, request: SlotRequest) -> None:
        """Reserve the slot and offer it to the job's master. Conflict names the occupant."""
        ...

    async def heartbeat_from_resource_manager(self, token: FencingToken) -> SlotReport: ...

    async def disconnect_resource_manager(self, token: FencingToken, reason: str) -> None: ...

    async def submit_task(self, token: FencingToken, deployment: TaskDeployment) -> None:
        """Refused for a wrong job master or an unknown slot; again with the same id is harmless."""
        ...

    async def cancel_task(self, token: FencingToken, job_id: JobId, attempt: AttemptId) -> None:
        """Begin to cancel; the outcome tells when it is done. Again is harmless."""
        ...

    async def free_slots(
        self, token: FencingToken, job_id: JobId, allocations: tuple[AllocationId, ...], reason: str
    ) -> None: ...

    async def heartbeat_from_job_master(
        self, token: FencingToken, job_id: JobId, allocations: tuple[AllocationId, ...]
    ) -> tuple[AttemptId, ...]:
        """The master says which slots it believes to hold here; the answer lists the attempts."""
        ...

"""The calls of a task executor, which the resource manager and job masters use."""

from typing import Protocol

from stoker.core.graph import JobGraph
from stoker.core.ids import AllocationId, AttemptId, JobId, RegionId
from stoker.core.values import FencingToken, Value
from stoker.gateways.attempt_logs import LogPiece, LogStream
from stoker.gateways.resourcemanager import SlotReport

MOVED = "moved"
"""Cause of an attempt that ended, through no fault of its job, to restart elsewhere."""


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
    stopped: bool = False
    """The job was stopped with a savepoint, so there is nothing left to run."""
    owner: str = ""


class Suspension(Value):
    """State of the suspension of a streaming task at a batch boundary."""

    asked: bool
    """Whether the task was asked to suspend under this order."""
    reached: bool = False
    """Whether the task has ended at a boundary and waits for the decision."""
    refused: str | None = None
    """Why no boundary came in time; the task continues."""
    batch_id: int | None = None


class TaskExecutorGateway(Protocol):
    """Not fenced as a whole: each call names the leadership that commands it."""

    async def request_slot(self, token: FencingToken, request: SlotRequest) -> None:
        """Reserve the slot and offer it to the master of the job. Conflict names the occupant."""
        ...

    async def heartbeat_from_resource_manager(self, token: FencingToken) -> SlotReport: ...

    async def drain(self, token: FencingToken, seconds: float | None) -> None:
        """Take no new task, and end when the present ones are over.

        Streaming tasks end at once, for their job master to restart elsewhere; so do other tasks
        that have not ended within the given seconds. A repetition is harmless; the shorter time
        counts.
        """
        ...

    async def disconnect_resource_manager(self, token: FencingToken, reason: str) -> None: ...

    async def free_inactive_slots(self, token: FencingToken, job_id: JobId) -> None:
        """Free the slots that no master of the job has accepted. A repetition is harmless."""
        ...

    async def submit_task(self, token: FencingToken, deployment: TaskDeployment) -> None:
        """Refused for a wrong job master or an unknown slot. A repetition is harmless."""
        ...

    async def cancel_task(self, token: FencingToken, job_id: JobId, attempt: AttemptId) -> None:
        """Begin to cancel; the outcome reports the end. A repetition is harmless."""
        ...

    async def suspend_task(
        self,
        token: FencingToken,
        job_id: JobId,
        attempt: AttemptId,
        order: str,
        limit_seconds: float,
        hold_seconds: float,
    ) -> None:
        """Suspend the stream at a batch boundary until `decide_suspended`.

        The stream continues on its own when there is no boundary within the limit, or no decision
        within the hold time. A repetition under the same order is harmless.
        """
        ...

    async def suspension(
        self, token: FencingToken, job_id: JobId, attempt: AttemptId, order: str
    ) -> Suspension:
        """NotFound when the attempt is not here or has ended."""
        ...

    async def decide_suspended(
        self, token: FencingToken, job_id: JobId, attempt: AttemptId, order: str, finish: bool
    ) -> None:
        """Finish the stream that was suspended under this order, or let it continue."""
        ...

    async def free_slots(
        self, token: FencingToken, job_id: JobId, allocations: tuple[AllocationId, ...], reason: str
    ) -> None: ...

    async def heartbeat_from_job_master(
        self, token: FencingToken, job_id: JobId, allocations: tuple[AllocationId, ...]
    ) -> tuple[AttemptId, ...]:
        """The job master names its slots here; the task executor frees the job's other idle ones.

        Returns the attempts of the job that the task executor has.
        """
        ...

    async def read_attempt_log(
        self, job_id: JobId, attempt: AttemptId, stream: LogStream, offset: int
    ) -> LogPiece:
        """Not fenced, because it changes nothing. NotFound when the attempt has no log here."""
        ...

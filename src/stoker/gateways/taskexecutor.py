"""What the resource manager and job masters ask of a task executor."""

from typing import Protocol

from stoker.core.graph import (
    JobGraph,
)
from stoker.core.ids import AllocationId, AttemptId, JobId, RegionId
from stoker.core.values import FencingToken, Value
from stoker.gateways.attempt_logs import LogPiece, LogStream
from stoker.gateways.resourcemanager import SlotReport

MOVED = "moved"
"""Cause of the end of an attempt that is begun again elsewhere, through no fault of its job."""


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
    """The job was stopped with a savepoint: there is nothing to run any more."""


class Suspension(Value):
    """Whether a streaming task has ended at a batch boundary and waits for a decision."""

    asked: bool
    reached: bool = False
    refused: str | None = None
    """Why there was no boundary in time; the task goes on."""
    batch_id: int | None = None


class TaskExecutorGateway(Protocol):
    """Not fenced as a whole: each call names the leadership that commands it."""

    async def request_slot(self, token: FencingToken, request: SlotRequest) -> None:
        """Reserve the slot and offer it to the job's master. Conflict names the occupant."""
        ...

    async def heartbeat_from_resource_manager(self, token: FencingToken) -> SlotReport: ...

    async def drain(self, token: FencingToken, seconds: float | None) -> None:
        """Take no new task, and end when those that are here are over.

        Streaming tasks are ended for their master to begin again elsewhere; so are others that
        have not ended within the given seconds. Again is harmless; the shorter time counts.
        """
        ...

    async def disconnect_resource_manager(self, token: FencingToken, reason: str) -> None: ...

    async def free_inactive_slots(self, token: FencingToken, job_id: JobId) -> None:
        """The resource manager reclaims what no master of the job has taken; again is harmless."""
        ...

    async def submit_task(self, token: FencingToken, deployment: TaskDeployment) -> None:
        """Refused for a wrong job master or an unknown slot; again with the same id is harmless."""
        ...

    async def cancel_task(self, token: FencingToken, job_id: JobId, attempt: AttemptId) -> None:
        """Begin to cancel; the outcome tells when it is done. Again is harmless."""
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
        """Let the stream end at a batch boundary, and keep it so until it is decided about.

        It goes on by itself when there is no boundary within the limit, or no decision within
        the time that it is held. Again with the same order is harmless.
        """
        ...

    async def suspension(
        self, token: FencingToken, job_id: JobId, attempt: AttemptId, order: str
    ) -> Suspension:
        """NotFound when the attempt is not here, or over."""
        ...

    async def decide_suspended(
        self, token: FencingToken, job_id: JobId, attempt: AttemptId, order: str, finish: bool
    ) -> None:
        """The stream that this order ended is over, or goes on."""
        ...

    async def free_slots(
        self, token: FencingToken, job_id: JobId, allocations: tuple[AllocationId, ...], reason: str
    ) -> None: ...

    async def heartbeat_from_job_master(
        self, token: FencingToken, job_id: JobId, allocations: tuple[AllocationId, ...]
    ) -> tuple[AttemptId, ...]:
        """The master says which slots it believes to hold here; the answer lists the attempts."""
        ...

    async def read_attempt_log(
        self, job_id: JobId, attempt: AttemptId, stream: LogStream, offset: int
    ) -> LogPiece:
        """Not fenced: it changes nothing. NotFound when nothing of the attempt is here."""
        ...

"""Reads the log of an attempt: from its task executor, or else from the storage."""

from collections.abc import Awaitable, Callable

from stoker.core.errors import NotFound, StokerError
from stoker.core.ids import AttemptId, JobId, ResourceId
from stoker.core.results import AttemptDetails, JobDetails
from stoker.gateways.attempt_logs import LogPiece, LogStream
from stoker.gateways.resourcemanager import TaskExecutorDetails
from stoker.gateways.taskexecutor import TaskExecutorGateway
from stoker.ha.keys import LOG_CHUNK_BYTES, log_chunk
from stoker.rpc.service import RpcService
from stoker.storage.contract import Storage

TaskExecutors = Callable[[], Awaitable[list[TaskExecutorDetails]]]


class AttemptLogReader:
    def __init__(self, rpc: RpcService, storage: Storage, executors: TaskExecutors) -> None:
        self._rpc = rpc
        self._storage = storage
        self._executors = executors

    async def read(
        self, details: JobDetails, attempt: AttemptId, stream: LogStream, offset: int
    ) -> LogPiece:
        known = _attempt_of(details, attempt)
        if known.task_executor is not None:
            piece = await self._from_executor(
                known.task_executor, details.job_id, attempt, stream, offset
            )
            if piece is not None:
                return piece
        if not known.state.terminal:
            # The task executor is unreachable or not chosen yet; more output may still come.
            return LogPiece()
        return await self._from_storage(details.job_id, attempt, stream, offset)

    async def _from_executor(
        self,
        executor: ResourceId,
        job_id: JobId,
        attempt: AttemptId,
        stream: LogStream,
        offset: int,
    ) -> LogPiece | None:
        """None when the task executor cannot be reached or has no log of the attempt."""
        try:
            for known in await self._executors():
                if known.resource_id == executor:
                    gateway = await self._rpc.connect(known.address, TaskExecutorGateway)
                    return await gateway.read_attempt_log(job_id, attempt, stream, offset)
        except StokerError:
            return None
        return None

    async def _from_storage(
        self, job_id: JobId, attempt: AttemptId, stream: LogStream, offset: int
    ) -> LogPiece:
        number, skipped = divmod(offset, LOG_CHUNK_BYTES)
        try:
            chunk = await self._storage.read(log_chunk(job_id, attempt, stream, number))
        except NotFound:
            return LogPiece(complete=True)
        return LogPiece(data=chunk[skipped:], complete=len(chunk) < LOG_CHUNK_BYTES)


def _attempt_of(details: JobDetails, wanted: AttemptId) -> AttemptDetails:
    for region in details.regions:
        for attempt in (region.current, *region.former):
            if attempt.attempt == wanted:
                return attempt
    raise NotFound(
        f"job {details.job_id} has no attempt {wanted}; GET /jobs/{details.job_id}/details lists "
        "its attempts",
        attempt=wanted,
    )

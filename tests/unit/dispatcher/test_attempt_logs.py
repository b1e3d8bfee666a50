"""The log of an attempt is found at its task executor or in the storage."""

from typing import Any

import pytest

from builders import build_details
from stoker.core.errors import NotFound, Unavailable
from stoker.core.ids import AttemptId, InstanceId, JobId, RegionId, ResourceId
from stoker.core.results import AttemptDetails, JobDetails, RegionDetails
from stoker.core.states import ExecutionState
from stoker.dispatcher.attempt_logs import AttemptLogReader
from stoker.dispatcher.sweep import KnownJobs, is_wanted
from stoker.gateways.attempt_logs import LogPiece, LogStream
from stoker.gateways.resourcemanager import TaskExecutorDetails
from stoker.ha.keys import LOG_CHUNK_BYTES, log_chunk
from stoker.storage.memory import MemoryStorage

JOB = JobId("1" * 32)
ATTEMPT = AttemptId("2" * 32)
EXECUTOR = ResourceId("executor-1")


class Executor:
    def __init__(self, answer: LogPiece | Exception) -> None:
        self._answer = answer

    async def read_attempt_log(self, *_arguments: Any) -> LogPiece:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


class Rpc:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def connect(self, *_arguments: Any) -> Executor:
        return self._executor


def reader(
    storage: MemoryStorage, answer: LogPiece | Exception, *, registered: bool = True
) -> AttemptLogReader:
    known = TaskExecutorDetails(
        resource_id=EXECUTOR,
        instance=InstanceId("i"),
        address="here",
        slots_total=1,
        slots_free=1,
        last_heartbeat=0,
    )

    async def executors() -> list[TaskExecutorDetails]:
        return [known] if registered else []

    return AttemptLogReader(Rpc(Executor(answer)), storage, executors)  # type: ignore[arg-type]


def details(state: ExecutionState) -> JobDetails:
    attempt = AttemptDetails(attempt=ATTEMPT, number=0, state=state, task_executor=EXECUTOR)
    region = RegionDetails(
        id=RegionId("program"), vertices=("program",), streaming=False, current=attempt
    )
    return build_details(job_id=JOB, regions=(region,))


async def read(logs: AttemptLogReader, state: ExecutionState, offset: int = 0) -> LogPiece:
    return await logs.read(details(state), ATTEMPT, LogStream.STDOUT, offset)


async def test_a_log_is_read_from_the_task_executor_that_has_it() -> None:
    piece = LogPiece(data=b"hello")
    assert await read(reader(MemoryStorage(), piece), ExecutionState.RUNNING) == piece


@pytest.mark.parametrize("answer", [NotFound("forgotten"), Unavailable("gone")])
async def test_a_log_that_the_task_executor_lacks_is_read_from_the_storage(
    answer: Exception,
) -> None:
    storage = MemoryStorage()
    await storage.write(log_chunk(JOB, ATTEMPT, "stdout", 0), b"a" * LOG_CHUNK_BYTES)
    await storage.write(log_chunk(JOB, ATTEMPT, "stdout", 1), b"end")
    logs = reader(storage, answer)
    first = await read(logs, ExecutionState.FINISHED)
    assert (len(first.data), first.complete) == (LOG_CHUNK_BYTES, False)
    rest = await read(logs, ExecutionState.FINISHED, LOG_CHUNK_BYTES + 1)
    assert (rest.data, rest.complete) == (b"nd", True)


async def test_an_attempt_that_wrote_nothing_has_an_empty_log() -> None:
    logs = reader(MemoryStorage(), NotFound("never"), registered=False)
    assert await read(logs, ExecutionState.FAILED) == LogPiece(complete=True)


async def test_the_log_of_an_unreachable_running_attempt_is_not_complete() -> None:
    logs = reader(MemoryStorage(), Unavailable("silent"))
    assert await read(logs, ExecutionState.RUNNING) == LogPiece(complete=False)


async def test_an_unknown_attempt_is_not_found() -> None:
    logs = reader(MemoryStorage(), LogPiece())
    with pytest.raises(NotFound, match="has no attempt"):
        await logs.read(
            details(ExecutionState.RUNNING), AttemptId("../../etc"), LogStream.STDOUT, 0
        )


def test_logs_are_kept_as_long_as_the_result_of_their_job() -> None:
    path = log_chunk(JOB, ATTEMPT, "stdout", 0)
    other = KnownJobs(jobs={}, results={JobId("9" * 32): None})
    assert is_wanted(path, KnownJobs(jobs={JOB: None}, results={}))
    assert is_wanted(path, KnownJobs(jobs={}, results={JOB: "results/x"}))
    assert not is_wanted(path, other)

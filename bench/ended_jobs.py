"""Records many ended jobs before a master starts, in the same way as a leading master.

The jobs go through the real result store, under a leadership, with their details.
"""

import asyncio

from stoker.aio.clock import system_wall_clock
from stoker.core.graph import JobType
from stoker.core.ids import AttemptId, Ids, RegionId
from stoker.core.results import (
    AttemptDetails,
    JobDetails,
    JobResult,
    PlanVertex,
    RegionDetails,
)
from stoker.core.states import ExecutionState, JobStatus
from stoker.core.values import Millis
from stoker.ha.open import open_coordinator
from stoker.ha.stores.job_results import JobResultStore
from stoker.storage.open import open_storage
from stoker.testing.leadership import seize_leadership

_INTERVAL_MS = 1000
_DURATION_MS = 60_000
_CONCURRENCY = 64


async def record_ended_jobs(count: int, high_availability: str, storage: str) -> None:
    """Record jobs that are FINISHED and clean, for the next leader to find."""
    ids = Ids()
    coordinator = await open_coordinator(high_availability, ids=ids)
    try:
        leadership = await seize_leadership(coordinator, ids=ids)
        results = JobResultStore(leadership, open_storage(storage), ids)
        semaphore = asyncio.Semaphore(_CONCURRENCY)
        first = system_wall_clock() - count * _INTERVAL_MS - _DURATION_MS

        async def record(number: int) -> None:
            async with semaphore:
                details = _details(number, first + number * _INTERVAL_MS, ids)
                await results.create_dirty(_result(details), details)
                await results.mark_clean(details.job_id)

        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(record(number))
    finally:
        await coordinator.close()


def _details(number: int, start: Millis, ids: Ids) -> JobDetails:
    return JobDetails(
        job_id=ids.job(),
        name=f"orders per hour {number}",
        job_type=JobType.BATCH,
        status=JobStatus.FINISHED,
        timestamps={JobStatus.INITIALIZING: start, JobStatus.FINISHED: start + _DURATION_MS},
        start=start,
        end=start + _DURATION_MS,
        plan=(
            PlanVertex(name="orders", kind="source"),
            PlanVertex(name="totals", kind="sink", inputs=("orders",)),
        ),
        regions=(
            RegionDetails(
                id=RegionId("totals"),
                vertices=("orders", "totals"),
                streaming=False,
                current=AttemptDetails(
                    attempt=AttemptId(ids.nonce()),
                    number=0,
                    state=ExecutionState.FINISHED,
                    timestamps={ExecutionState.FINISHED: start + _DURATION_MS},
                ),
            ),
        ),
    )


def _result(details: JobDetails) -> JobResult:
    assert details.end is not None
    return JobResult(
        job_id=details.job_id,
        name=details.name,
        job_type=details.job_type,
        status=details.status,
        start=details.start,
        end=details.end,
        tasks={ExecutionState.FINISHED: 1},
    )

"""A task executor drains: batch tasks finish, streams move to other executors.

Invariant under attack: draining causes no failure of a job and is not forgotten by a new leader.
"""

import asyncio
from pathlib import Path

import pytest

from simulation.faults import kill_leader
from simulation.scenarios import FOREVER, details_of, job, simulate
from stoker.core.errors import NotFound
from stoker.core.graph import RestartPolicy
from stoker.core.ids import JobId, ResourceId
from stoker.core.states import ExecutionState, JobStatus
from stoker.testing.simulated_cluster import SimulatedCluster

NEVER = RestartPolicy(strategy="none")


async def drain(cluster: SimulatedCluster, name: str, seconds: float | None = None) -> None:
    await cluster.ask(lambda d: d.drain_task_executor(ResourceId(name), seconds))


def executors_of(cluster: SimulatedCluster, job_id: JobId) -> list[str]:
    return [span.executor for span in cluster.history.attempts if span.job_id == job_id]


def test_a_batch_task_finishes_and_then_its_executor_ends(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster, seconds=30, restart=NEVER))
        await asyncio.sleep(5)
        [name] = executors_of(cluster, job_id)
        await drain(cluster, name)
        later = [await cluster.submit(job(cluster)) for _ in range(4)]
        for each in later:
            assert await cluster.wait_for_end(each) is JobStatus.FINISHED
            assert name not in executors_of(cluster, each), "a draining executor gets no new tasks"
        assert cluster.ended_by_themselves() == []
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED
        await asyncio.sleep(3)
        assert cluster.ended_by_themselves() == [name]
        left = await cluster.ask(lambda dispatcher: dispatcher.task_executors())
        assert name not in [each.resource_id for each in left]
        assert len(executors_of(cluster, job_id)) == 1

    simulate(tmp_path, scenario)


def test_a_stream_moves_to_another_executor_without_a_failure_of_its_job(tmp_path: Path) -> None:
    """The attempt ends before another one begins, and counts as moved (JM-05)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        graph = job(cluster, seconds=FOREVER, streaming=True, restart=NEVER)
        job_id = await cluster.submit(graph)
        await asyncio.sleep(5)
        [name] = executors_of(cluster, job_id)
        await drain(cluster, name)
        await asyncio.sleep(10)
        first, second = executors_of(cluster, job_id)
        assert first == name != second
        now = await details_of(cluster, job_id)
        assert now.status is JobStatus.RUNNING
        assert now.failures == ()
        assert now.regions[0].current.state is ExecutionState.RUNNING
        assert cluster.ended_by_themselves() == [name]
        await cluster.cancel(job_id)
        assert await cluster.wait_for_end(job_id) is JobStatus.CANCELED

    simulate(tmp_path, scenario)


def test_a_batch_task_that_takes_too_long_restarts_elsewhere(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster, seconds=60, restart=NEVER))
        await asyncio.sleep(5)
        [name] = executors_of(cluster, job_id)
        await drain(cluster, name)
        await drain(cluster, name, seconds=10)
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED
        first, second = executors_of(cluster, job_id)
        assert first == name != second

    simulate(tmp_path, scenario)


def test_the_last_executor_drains_too_and_the_job_reports_why_it_waits(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await drain(cluster, "executor-0")
        job_id = await cluster.submit(job(cluster))
        await asyncio.sleep(5)
        assert "no task executor is registered" in (
            (await details_of(cluster, job_id)).waiting or ""
        )
        await cluster.stop("executor-0")
        cluster.start("executor-0")
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED

    simulate(tmp_path, scenario, executors=1)


def test_a_new_leader_knows_which_executors_are_draining(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster, seconds=60))
        await asyncio.sleep(5)
        [name] = executors_of(cluster, job_id)
        await drain(cluster, name)
        await kill_leader(cluster)
        await asyncio.sleep(20)
        known = {
            each.resource_id: each.draining
            for each in await cluster.ask(lambda dispatcher: dispatcher.task_executors())
        }
        assert known == {f"executor-{n}": f"executor-{n}" == name for n in range(3)}
        for _ in range(4):
            other = await cluster.submit(job(cluster))
            assert await cluster.wait_for_end(other) is JobStatus.FINISHED
            assert name not in executors_of(cluster, other)
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED

    simulate(tmp_path, scenario)


def test_draining_an_unknown_executor_is_an_error(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await asyncio.sleep(3)
        with pytest.raises(NotFound, match="no task executor with id nobody"):
            await drain(cluster, "nobody")

    simulate(tmp_path, scenario)

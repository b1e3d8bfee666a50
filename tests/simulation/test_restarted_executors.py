"""A task executor dies and is restarted on its machine (TM-22).

Invariant under attack: the jobs that ran there get their slots back before jobs that came later.
"""

import asyncio
from pathlib import Path

import msgspec

from simulation.scenarios import FOREVER, MANY_RESTARTS, details_of, job, simulate
from stoker.core.ids import JobId
from stoker.core.states import ExecutionState, JobStatus
from stoker.testing.simulated_cluster import SimulatedCluster


async def states_of(cluster: SimulatedCluster, job_id: JobId) -> set[ExecutionState]:
    details = await details_of(cluster, job_id)
    return {region.current.state for region in details.regions}


def test_a_job_gets_its_slots_on_the_restarted_executor_before_later_jobs(tmp_path: Path) -> None:
    """The waiting job of higher priority does not get the slots (TM-22)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        graph = job(cluster, seconds=FOREVER, sinks=2, streaming=True, restart=MANY_RESTARTS)
        runs = await cluster.submit(graph)
        await asyncio.sleep(5)
        waiting = msgspec.structs.replace(job(cluster, seconds=1, sinks=2), priority=9)
        waits = await cluster.submit(waiting)
        await asyncio.sleep(5)
        assert await states_of(cluster, waits) == {ExecutionState.SCHEDULED}
        await cluster.kill("executor-0")
        await asyncio.sleep(3)
        cluster.start_executor("executor-0")
        await asyncio.sleep(60)
        assert await states_of(cluster, runs) == {ExecutionState.RUNNING}
        assert await states_of(cluster, waits) == {ExecutionState.SCHEDULED}
        await cluster.cancel(runs)
        assert await cluster.wait_for_end(waits) is JobStatus.FINISHED

    simulate(tmp_path, scenario, masters=1, executors=1)


def test_a_job_that_moved_elsewhere_gives_up_its_previous_slot(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        graph = job(cluster, seconds=FOREVER, streaming=True, restart=MANY_RESTARTS)
        runs = await cluster.submit(graph)
        await asyncio.sleep(5)
        details = await details_of(cluster, runs)
        name = details.regions[0].current.task_executor
        assert name is not None
        await cluster.kill(name)
        await asyncio.sleep(60)
        assert await states_of(cluster, runs) == {ExecutionState.RUNNING}
        cluster.start_executor(name)
        await asyncio.sleep(5)
        overview = await cluster.ask(lambda dispatcher: dispatcher.cluster_overview())
        assert overview.resources.slots_free == 3
        await cluster.cancel(runs)
        assert await cluster.wait_for_end(runs) is JobStatus.CANCELED

    simulate(tmp_path, scenario, masters=1, executors=2)

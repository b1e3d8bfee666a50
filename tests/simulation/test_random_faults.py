"""Random faults from a seed: deaths, stops, freezes, partitions, lost messages, outages.

Every invariant is under attack and is checked at the end of each run.
"""

import asyncio
from pathlib import Path

import pytest

from simulation.random_faults import SEEDS, FaultInjector
from simulation.scenarios import FOREVER, MANY_RESTARTS, job, simulate
from stoker.core.ids import JobId
from stoker.core.states import JobStatus
from stoker.testing.simulated_cluster import SimulatedCluster


@pytest.mark.parametrize("seed", SEEDS)
def test_random_faults_break_no_invariant(tmp_path: Path, seed: int) -> None:
    """Afterwards the cluster serves, and every job has ended once.

    (FAULT-01, FAULT-02, FAULT-03, FAULT-06, FAULT-10)
    """

    async def scenario(cluster: SimulatedCluster) -> None:
        endless: list[JobId] = []
        finite: list[JobId] = []

        async def submit_some() -> None:
            for _ in range(cluster.random.randint(2, 8)):
                await asyncio.sleep(cluster.random.uniform(0, 12))
                await submit_one()

        async def submit_one() -> None:
            streaming = cluster.random.random() < 0.25
            graph = job(
                cluster,
                seconds=FOREVER if streaming else cluster.random.choice([0.1, 5, 40, 100]),
                sinks=cluster.random.randint(1, 2 if streaming else 3),
                fails=cluster.random.choice([0, 0, 0, 1, 3]),
                streaming=streaming,
                cancel_seconds=cluster.random.choice([0, 0, 0.5, 5]),
                restart=MANY_RESTARTS,
            )
            job_id = await cluster.submit(graph)
            (endless if streaming else finite).append(job_id)
            if cluster.random.random() < 0.25:
                await asyncio.sleep(cluster.random.uniform(0, 8))
                await cluster.cancel(job_id)

        await asyncio.gather(submit_some(), FaultInjector(cluster).inject())
        for each in endless:
            await asyncio.sleep(cluster.random.uniform(0, 5))
            await cluster.cancel(each)
        for each in endless:
            assert await cluster.wait_for_end(each, patience=400) is JobStatus.CANCELED
        for each in finite:
            status = await cluster.wait_for_end(each)
            assert status is JobStatus.FINISHED or each in cluster.history.cancelled
        await check_that_nothing_is_left(cluster)

    simulate(tmp_path, scenario, seed=seed)


async def check_that_nothing_is_left(cluster: SimulatedCluster) -> None:
    """Soon after the last job has ended, all slots are free and only results are on record."""
    await asyncio.sleep(90)
    overview = await cluster.ask(lambda dispatcher: dispatcher.cluster_overview())
    assert overview.resources.slots_free == overview.resources.slots_total == 6
    live = [key for key in cluster.coordination.all_keys() if key.startswith(("jobs/", "wishes/"))]
    assert live == []

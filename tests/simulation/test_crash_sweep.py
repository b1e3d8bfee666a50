"""A process dies at each failpoint that the life of a cluster passes through.

Invariant under attack: whichever process dies between any two steps, no acknowledged job is lost,
none runs twice at the same time, and nothing of an ended job is left behind.
"""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest

from simulation.faults import ProcessKiller, kill_leader
from simulation.scenarios import job, simulate, whole_life
from stoker.core.failpoints import FAILPOINTS, armed
from stoker.testing.simulated_cluster import SimulatedCluster

PASSED = sorted(name for name in FAILPOINTS if "pruning" not in name)
"""The failpoints that `whole_life` passes through.

Results are pruned only after days; tests of the store alone crash at those failpoints.
"""


async def restart_later(cluster: SimulatedCluster, killer: ProcessKiller) -> None:
    process = await killer.wait_for_death()
    await asyncio.sleep(8)
    cluster.start(process.name)


@pytest.mark.parametrize("hit", [1, 2])
@pytest.mark.parametrize("name", PASSED)
def test_a_death_at_any_failpoint_loses_nothing(tmp_path: Path, name: str, hit: int) -> None:
    """The dead process is restarted, and every job still ends (design invariants 1 to 6).

    Nothing of an ended job is left either (RUN-17, CLEAN-13).
    """
    deaths: list[str] = []

    async def scenario(cluster: SimulatedCluster) -> None:
        killer = ProcessKiller(cluster, hit)
        restarting = asyncio.create_task(restart_later(cluster, killer))
        with armed(name, killer.reached):
            await whole_life(cluster)
        restarting.cancel()
        if killer.dead.value is not None:
            deaths.append(killer.dead.value.name)

    simulate(tmp_path, scenario)
    assert deaths or hit > 1, f"no process reached {name}"


def test_the_simulated_life_passes_every_failpoint(tmp_path: Path) -> None:
    passed: set[str] = set()

    async def scenario(cluster: SimulatedCluster) -> None:
        with ExitStack() as stack:
            for name in FAILPOINTS:
                stack.enter_context(armed(name, lambda name=name: passed.add(name)))
            cluster.start_master("master-2")
            await whole_life(cluster)
            await kill_leader(cluster)
            await cluster.submit(job(cluster))
            for job_id in cluster.history.acknowledged:
                await cluster.wait_for_end(job_id)

    simulate(tmp_path, scenario)
    assert passed == set(PASSED)

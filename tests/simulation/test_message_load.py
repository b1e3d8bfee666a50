"""A cluster sends few messages when it is idle or waits, and the simulation can detect faults.

Claims under attack: no process spins, and the checks of the invariants fail when the code is wrong.
"""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from simulation.faults import kill_leader
from simulation.scenarios import FOREVER, MANY_RESTARTS, details_of, job, simulate
from stoker.core.states import JobStatus
from stoker.jobmaster import losses
from stoker.testing.simulated_cluster import SimulatedCluster


async def messages_per_minute(cluster: SimulatedCluster) -> float:
    before = cluster.faults.messages
    await asyncio.sleep(300)
    return (cluster.faults.messages - before) / 5


def test_an_idle_cluster_sends_heartbeats_and_nothing_else(tmp_path: Path) -> None:
    """Three executors, a request and an answer every two seconds: 180 messages a minute."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster))
        await cluster.wait_for_end(job_id)
        await asyncio.sleep(30)
        assert await messages_per_minute(cluster) <= 185

    simulate(tmp_path, scenario)


def test_a_running_job_adds_few_messages(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster, seconds=FOREVER, streaming=True))
        await asyncio.sleep(10)
        assert await messages_per_minute(cluster) <= 185 + 60 + 60 + 60 + 10
        await cluster.cancel(job_id)
        await cluster.wait_for_end(job_id)

    simulate(tmp_path, scenario)


def test_a_job_that_waits_for_slots_does_not_spin(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.submit(job(cluster, seconds=200, sinks=6))
        await asyncio.sleep(5)
        waiting = await cluster.submit(job(cluster))
        before = cluster.faults.messages
        await asyncio.sleep(60)
        assert cluster.faults.messages - before < 1000
        for job_id in cluster.history.acknowledged:
            await cluster.wait_for_end(job_id)
        assert await cluster.status(waiting) is JobStatus.FINISHED

    simulate(tmp_path, scenario)


def test_a_streaming_job_with_too_few_slots_reports_it_and_fails_in_time(tmp_path: Path) -> None:
    """Some of the slots are not enough: the regions start together (POOL-06, FAIL-09, FAULT-12)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster, seconds=FOREVER, sinks=7, streaming=True))
        await asyncio.sleep(10)
        details = await details_of(cluster, job_id)
        assert details.waiting is not None
        assert details.waiting.startswith("needs 7 more slots; 6 of 6 are free; the cluster can ")
        assert await cluster.wait_for_end(job_id, patience=320) is JobStatus.FAILED
        details = await details_of(cluster, job_id)
        assert "needs 7 more slots" in details.failures[0].failure.message

    simulate(tmp_path, scenario)


def test_without_the_wait_for_leases_the_history_shows_overlapping_attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, "wait_before_replacing", lambda **_: timedelta(0))

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster, seconds=120, restart=MANY_RESTARTS))
        await asyncio.sleep(5)
        name = cluster.history.attempts[0].executor
        cluster.cut_off(name)
        cluster.coordination.suspend(cluster.processes[name].session)
        await cluster.wait_for_end(job_id)
        (broken,) = await cluster.broken_invariants()
        assert broken.endswith("overlap")
        # `simulate` checks the other invariants once more, and must not see this one broken.
        cluster.history.attempts.clear()

    simulate(tmp_path, scenario)


def test_the_same_seed_gives_the_same_run(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        cluster.faults.usual_delay = 0.3
        jobs = [
            await cluster.submit(job(cluster, seconds=9, sinks=2, restart=MANY_RESTARTS))
            for _ in range(5)
        ]
        await cluster.kill("executor-1")
        await kill_leader(cluster)
        for each in jobs:
            await cluster.wait_for_end(each)

    one, other = [simulate(tmp_path / str(n), scenario, seed=7) for n in range(2)]
    assert one.history == other.history
    assert one.faults.messages == other.faults.messages

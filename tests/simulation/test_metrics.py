"""What masters of a whole cluster show as metrics, before and after a fail-over."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from simulation.faults import kill_leader, leader_of
from simulation.scenarios import (
    FOREVER,
    MANY_RESTARTS,
    SAVEPOINT_DIRECTORY,
    STOP,
    job,
    simulate,
    stream,
    wait_until_running,
)
from simulation.test_savepoints import take_savepoint
from stoker.core.checkpoints import SavepointRequest
from stoker.core.errors import InvalidInput
from stoker.core.ids import JobId
from stoker.testing.simulated_cluster import HEARTBEAT, SESSION_TIMEOUT, SimulatedCluster
from unit.metrics.readings import values

BATCHES = "stoker_stream_batches_total"


def shown(cluster: SimulatedCluster, process: str) -> dict[tuple[str, ...], float]:
    return values(cluster.processes[process].metrics)


async def end(cluster: SimulatedCluster, job_id: JobId) -> None:
    await cluster.cancel(job_id)
    await cluster.wait_for_end(job_id)


def test_the_leader_shows_jobs_slots_and_submissions_and_ended_jobs_leave(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        graph = job(cluster, seconds=FOREVER)
        await cluster.submit(graph)
        await cluster.submit(graph)
        with pytest.raises(InvalidInput):
            await cluster.submit(msgspec.structs.replace(job(cluster), queue="unknown"))
        failing = await cluster.submit(job(cluster, fails=2, restart=MANY_RESTARTS))
        await wait_until_running(cluster, graph.job_id)
        await cluster.wait_for_end(failing)
        await asyncio.sleep(5)
        leader = shown(cluster, leader_of(cluster))
        assert leader["stoker_jobs", "RUNNING"] == 1
        assert leader["stoker_jobs", "FAILING"] == 0
        assert leader["stoker_job_results", "FINISHED"] == 1
        assert leader["stoker_jobs_ended_total", "FINISHED"] == 1
        assert leader["stoker_job_submissions_total", "accepted", ""] == 2
        assert leader["stoker_job_submissions_total", "repeated", ""] == 1
        assert leader["stoker_job_submissions_total", "refused", "InvalidInput"] == 1
        assert leader["stoker_job_running_seconds", graph.job_id, "simulated"] >= 1
        assert leader["stoker_job_restarts_total", graph.job_id, "simulated"] == 0
        assert leader["stoker_cluster_slots", "used"] == 1
        assert leader["stoker_cluster_slots", "free"] == 5
        assert leader["stoker_task_executors", "registered"] == 3
        assert leader[("stoker_master_is_leading",)] == 1
        assert leader[("stoker_epoch",)] == 0
        assert ("stoker_queue_wait_seconds", "default") in leader
        assert not [labels for labels in leader if failing in labels]
        await end(cluster, graph.job_id)

    simulate(tmp_path, scenario)


def test_restarts_of_a_job_are_counted_while_it_lives(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        graph = job(cluster, seconds=5, fails=2, restart=MANY_RESTARTS)
        await cluster.submit(graph)
        await asyncio.sleep(14)
        name = ("stoker_job_restarts_total", graph.job_id, "simulated")
        assert shown(cluster, leader_of(cluster))[name] == 2
        await end(cluster, graph.job_id)

    simulate(tmp_path, scenario)


def test_only_the_leader_shows_the_cluster_and_a_new_one_says_how_long_it_took(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster, seconds=FOREVER))
        await cluster.jobs()
        first = leader_of(cluster)
        standby = next(name for name in ("master-0", "master-1") if name != first)
        assert not [name for name, *_ in shown(cluster, standby) if name == "stoker_jobs"]
        assert shown(cluster, standby)[("stoker_master_is_leading",)] == 0
        assert await kill_leader(cluster) == first
        assert len(await cluster.jobs()) == 1
        now = shown(cluster, standby)
        assert sum(value for labels, value in now.items() if labels[0] == "stoker_jobs") == 1
        assert now[("stoker_master_is_leading",)] == 1
        assert now[("stoker_leaderships_total",)] == 1
        assert now[("stoker_takeover_duration_seconds",)] < SESSION_TIMEOUT
        await end(cluster, job_id)

    simulate(tmp_path, scenario)


def test_a_dead_task_executor_is_missed_and_counted(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.jobs()
        leader = leader_of(cluster)
        await cluster.kill("executor-0")
        link = "resource manager to task executors"
        await asyncio.sleep(2 * HEARTBEAT.interval.total_seconds())
        counted = shown(cluster, leader)
        assert counted[("stoker_task_executors_lost_total",)] == 1
        assert counted["stoker_heartbeats_missed_total", link] == 2
        assert counted["stoker_heartbeat_losses_total", link, "UNREACHABLE"] == 1
        assert counted["stoker_task_executors", "registered"] == 2

    simulate(tmp_path, scenario)


def test_a_task_executor_shows_its_slots_and_streams_until_they_end(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        graph = stream(cluster)
        await cluster.submit(graph)
        await wait_until_running(cluster, graph.job_id)
        executors = [shown(cluster, f"executor-{number}") for number in range(3)]
        assert sum(each["stoker_slots", "used"] for each in executors) == 2
        assert sum(each["stoker_tasks", "RUNNING"] for each in executors) == 2
        assert sum(each["stoker_warm_processes", "runner"] for each in executors) == 3
        streams = [key for each in executors for key in each if key[0] == BATCHES]
        assert sorted(key[1:] for key in streams) == [
            (graph.job_id, "simulated", "sink-0"),
            (graph.job_id, "simulated", "sink-1"),
        ]
        await end(cluster, graph.job_id)
        await asyncio.sleep(5)
        executors = [shown(cluster, f"executor-{number}") for number in range(3)]
        assert not [key for each in executors for key in each if graph.job_id in key]
        ended = [each.get(("stoker_tasks_ended_total", "CANCELED"), 0) for each in executors]
        assert sum(ended) == 2

    simulate(tmp_path, scenario)


def test_renewals_of_leases_are_counted_by_what_allowed_them(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        graph = job(cluster, seconds=FOREVER)
        await cluster.submit(graph)
        await wait_until_running(cluster, graph.job_id)
        await asyncio.sleep(60)
        for name in ("master-0", "master-1"):
            await cluster.kill(name)
        await asyncio.sleep(300)
        ways = {
            key[1]
            for number in range(3)
            for key in shown(cluster, f"executor-{number}")
            if key[0] == "stoker_lease_renewals_total"
        }
        assert ways == {"job_master", "no_leader"}
        cluster.start("master-0")
        await end(cluster, graph.job_id)

    simulate(tmp_path, scenario)


def test_a_lease_that_nobody_renews_is_counted(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        graph = job(cluster, seconds=FOREVER, restart=MANY_RESTARTS)
        await cluster.submit(graph)
        await wait_until_running(cluster, graph.job_id)
        (name,) = [
            f"executor-{number}"
            for number in range(3)
            if shown(cluster, f"executor-{number}")["stoker_tasks", "RUNNING"]
        ]
        cluster.cut_off(name)
        await asyncio.sleep(300)
        assert shown(cluster, name)[("stoker_leases_expired_total",)] == 1
        await end(cluster, graph.job_id)

    simulate(tmp_path, scenario)


def test_savepoints_are_counted_with_their_time_and_size(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(stream(cluster))
        await wait_until_running(cluster, job_id)
        plain = SavepointRequest(directory=SAVEPOINT_DIRECTORY)
        await take_savepoint(cluster, job_id, plain, "1" * 32)
        cluster.saved.go_away()
        await take_savepoint(cluster, job_id, plain, "2" * 32)
        cluster.saved.come_back()
        await take_savepoint(cluster, job_id, STOP, "3" * 32)
        await cluster.wait_for_end(job_id)
        leader = shown(cluster, leader_of(cluster))
        assert leader["stoker_savepoints_total", "savepoint", "completed"] == 1
        assert leader["stoker_savepoints_total", "savepoint", "failed"] == 1
        assert leader["stoker_savepoints_total", "stop", "completed"] == 1
        for kind in ("savepoint", "stop"):
            assert leader["stoker_savepoint_duration_seconds", kind] >= 0
            assert leader["stoker_savepoint_size_bytes", kind] >= 0

    simulate(tmp_path, scenario)

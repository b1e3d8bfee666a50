"""Two masters, three task executors and a fake engine, on virtual time, from a seed.

Invariant under attack: two attempts of one region never run at the same time, whichever process
dies, is stopped, or is cut off.
"""

import asyncio
from pathlib import Path

import pytest

from simulation.faults import kill_leader, leader_of
from simulation.scenarios import (
    FOREVER,
    details_of,
    job,
    simulate,
    stream,
    wait_until_running,
)
from stoker.config.load import configuration_from
from stoker.config.options import ALL
from stoker.config.sources import settings_on_command_line
from stoker.config.tree import OptionTree
from stoker.core.graph import RestartPolicy
from stoker.core.job_options import PARALLELISM_OVERRIDES, shuffle_partitions
from stoker.core.states import JobStatus
from stoker.processes.master import part_options
from stoker.testing.simulated_cluster import SimulatedCluster


def test_a_job_passes_through_every_part_and_ends_with_a_recorded_result(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster, sinks=3))
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED
        result = await cluster.ask(lambda dispatcher: dispatcher.job_result(job_id))
        assert result is not None
        assert result.status is JobStatus.FINISHED
        await asyncio.sleep(5)
        left = [key for key in cluster.coordination.all_keys() if job_id in key]
        assert left == [f"results/{job_id}"]
        stored = [path for path in await cluster.storage.list("") if job_id in path]
        assert stored == await cluster.storage.list(f"results/{job_id}")

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 3


def test_more_jobs_than_slots_wait_with_a_reason_and_all_end(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        jobs = [await cluster.submit(job(cluster, seconds=10)) for _ in range(9)]
        await asyncio.sleep(5)
        details = [await cluster.ask(lambda d, j=each: d.job_details(j)) for each in jobs]
        waiting = [each.waiting for each in details if each.waiting]
        assert len(waiting) == 3
        assert "needs 1 more slot; 0 of 6 are free" in waiting[0]
        for each in jobs:
            assert await cluster.wait_for_end(each) is JobStatus.FINISHED

    simulate(tmp_path, scenario)


def test_a_failing_job_follows_its_restart_strategy_and_ends_with_its_failures(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        twice = RestartPolicy(strategy="fixed-delay", attempts=2, delay_seconds=1)
        good = await cluster.submit(job(cluster, fails=2, restart=twice))
        bad = await cluster.submit(job(cluster, fails=3, restart=twice))
        assert await cluster.wait_for_end(good) is JobStatus.FINISHED
        assert await cluster.wait_for_end(bad) is JobStatus.FAILED
        details = await details_of(cluster, bad)
        assert [record.attempt_number for record in details.failures] == [2, 1, 0]

    simulate(tmp_path, scenario)


def test_a_repeated_submission_gets_the_same_answer(tmp_path: Path) -> None:
    """It does so even after the end of the job, which never runs again (DISP-03, DISP-04)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        graph = job(cluster)
        answers = await asyncio.gather(
            *(cluster.ask(lambda dispatcher: dispatcher.submit_job(graph)) for _ in range(4))
        )
        assert {answer.job_id for answer in answers} == {graph.job_id}
        assert [answer.repeated for answer in answers].count(False) == 1
        cluster.history.acknowledged[graph.job_id] = 0
        await cluster.wait_for_end(graph.job_id)
        again = await cluster.ask(lambda dispatcher: dispatcher.submit_job(graph))
        assert (again.job_id, again.repeated) == (graph.job_id, True)
        await asyncio.sleep(60)

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 1


@pytest.mark.parametrize("after", [0.0, 0.02, 0.1, 0.5, 1.5])
def test_a_job_can_be_cancelled_at_every_stage(tmp_path: Path, after: float) -> None:
    """A repeated cancellation is harmless (DISP-07)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster, seconds=100))
        await asyncio.sleep(after)
        await cluster.cancel(job_id)
        assert await cluster.wait_for_end(job_id, patience=30) is JobStatus.CANCELED
        await cluster.cancel(job_id)

    simulate(tmp_path, scenario)


def test_running_attempts_survive_the_death_of_the_leading_master(tmp_path: Path) -> None:
    """The new leader adopts the attempts instead of restarting them (RUN-16, LEAD-20, LEAD-22)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        jobs = [await cluster.submit(job(cluster, seconds=60)) for _ in range(8)]
        await asyncio.sleep(10)
        await kill_leader(cluster)
        for each in jobs:
            assert await cluster.wait_for_end(each) is JobStatus.FINISHED

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 8


def test_no_job_is_lost_when_the_only_master_dies_and_restarts(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.stop("master-1")
        jobs = [await cluster.submit(job(cluster, seconds=20)) for _ in range(10)]
        await cluster.kill("master-0")
        await asyncio.sleep(30)
        cluster.start_master("master-0")
        for each in jobs:
            assert await cluster.wait_for_end(each) is JobStatus.FINISHED

    simulate(tmp_path, scenario)


def test_a_job_on_a_dead_task_executor_fails_with_the_true_reason(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster, seconds=60))
        await asyncio.sleep(5)
        executor = cluster.history.attempts[0].executor
        await cluster.kill(executor)
        assert await cluster.wait_for_end(job_id) is JobStatus.FAILED
        details = await details_of(cluster, job_id)
        assert details.failures[0].failure.error == "TaskExecutorLost"
        assert executor in details.failures[0].failure.message

    simulate(tmp_path, scenario)


def test_an_executor_that_is_cut_off_ends_its_attempt_before_another_one_starts(
    tmp_path: Path,
) -> None:
    """Without proof of death no attempt is replaced before its lease has surely expired."""

    async def scenario(cluster: SimulatedCluster) -> None:
        again = RestartPolicy(strategy="fixed-delay", attempts=3, delay_seconds=1)
        job_id = await cluster.submit(job(cluster, seconds=300, restart=again))
        await asyncio.sleep(5)
        cut_off = cluster.history.attempts[0].executor
        cluster.cut_off(cut_off)
        cluster.coordination.suspend(cluster.processes[cut_off].session)
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 2


def test_a_new_leader_does_not_take_silence_for_death(tmp_path: Path) -> None:
    """The leader cannot reach the executor, whose attempt runs until its lease ends: no overlap."""

    async def scenario(cluster: SimulatedCluster) -> None:
        again = RestartPolicy(strategy="fixed-delay", attempts=9, delay_seconds=1)
        job_id = await cluster.submit(job(cluster, seconds=200, restart=again))
        await asyncio.sleep(5)
        leader = leader_of(cluster)
        [standby] = {"master-0", "master-1"} - {leader}
        cluster.network.partition(cluster.history.attempts[0].executor, standby)
        await cluster.kill(leader)
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 2


@pytest.mark.parametrize("which", [0, 1])
def test_an_attempt_that_started_long_after_the_registration_is_not_replaced_too_early(
    tmp_path: Path, which: int
) -> None:
    """The lease counts from the executor's last renewal, not from its registration."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.submit(job(cluster, seconds=150, sinks=3))
        await asyncio.sleep(1)
        again = RestartPolicy(strategy="fixed-delay", attempts=9, delay_seconds=1)
        graph = job(cluster, seconds=FOREVER, sinks=2, streaming=True, restart=again)
        job_id = await cluster.submit(graph)
        await asyncio.sleep(165)
        cut_off = cluster.history.attempts[-1 - which].executor
        cluster.start_executor("executor-9")
        cluster.cut_off(cut_off)
        cluster.coordination.suspend(cluster.processes[cut_off].session)
        await asyncio.sleep(100)
        await cluster.cancel(job_id)
        for each in cluster.history.acknowledged:
            await cluster.wait_for_end(each)

    cluster = simulate(tmp_path, scenario, executors=2)
    assert len(cluster.history.attempts) > 5


def test_a_stopped_executor_ends_its_tasks_before_others_replace_them(
    tmp_path: Path,
) -> None:
    """The task takes 20 s to end, and its replacement waits for that (JM-05)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        again = RestartPolicy(strategy="fixed-delay", attempts=9, delay_seconds=0)
        graph = job(cluster, seconds=60, cancel_seconds=20, restart=again)
        job_id = await cluster.submit(graph)
        await asyncio.sleep(5)
        await cluster.stop(cluster.history.attempts[0].executor)
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 2


def test_a_process_that_is_elected_again_after_a_short_outage_serves_again(tmp_path: Path) -> None:
    """Many calls fail at the moment when the leadership is cancelled (RUN-04, JMR-03)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.stop("master-1")
        jobs = [await cluster.submit(job(cluster, seconds=40, sinks=2)) for _ in range(3)]
        session = cluster.processes["master-0"].session
        for after in range(12):
            await asyncio.sleep(after * 0.3)
            cluster.coordination.suspend(session)
            await asyncio.sleep(1)
            cluster.coordination.resume(session)
        for each in jobs:
            assert await cluster.wait_for_end(each) is JobStatus.FINISHED

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 6


def test_an_executor_that_loses_its_session_keeps_its_tasks(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster, seconds=60))
        await asyncio.sleep(5)
        executor = cluster.history.attempts[0].executor
        cluster.coordination.expire(cluster.processes[executor].session)
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED

    cluster = simulate(tmp_path, scenario)
    assert len(cluster.history.attempts) == 1


def test_a_new_leader_recovers_more_jobs_than_it_starts_at_once(tmp_path: Path) -> None:
    """The leader dies while 60 jobs run or wait (FAULT-10)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        jobs = [await cluster.submit(job(cluster, seconds=2)) for _ in range(60)]
        await kill_leader(cluster)
        for each in jobs:
            assert await cluster.wait_for_end(each) is JobStatus.FINISHED

    cluster = simulate(tmp_path, scenario)
    assert len({span.job_id for span in cluster.history.attempts if span.finished}) == 60


def test_a_job_waits_for_task_executors_that_start_long_after_it(tmp_path: Path) -> None:
    """The default of slot.request.timeout is 300 s (RM-16)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        job_id = await cluster.submit(job(cluster))
        await asyncio.sleep(290)
        assert not (await cluster.status(job_id)).globally_terminal
        cluster.start_executor("executor-0")
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED

    simulate(tmp_path, scenario, executors=0)


def test_parallelism_overrides_of_the_cluster_reach_the_tasks(tmp_path: Path) -> None:
    """From the configuration of the master to the engine; the job's own win (DISP-23)."""
    definition = f"{PARALLELISM_OVERRIDES}=sink-0:7,sink-1:8"
    configuration = configuration_from(OptionTree(ALL), settings_on_command_line([definition]))

    async def scenario(cluster: SimulatedCluster) -> None:
        own = stream(cluster, **{PARALLELISM_OVERRIDES: "sink-1:3"})
        job_id = await cluster.submit(own)
        await wait_until_running(cluster, job_id)
        engines = [process.engine for process in cluster.processes.values() if process.engine]
        partitions = {
            task.region_id: shuffle_partitions(task.graph.configuration, task.region.vertices)
            for engine in engines
            for task in engine.tasks
        }
        assert partitions == {"sink-0": 7, "sink-1": 3}
        await cluster.cancel(job_id)
        assert await cluster.wait_for_end(job_id) is JobStatus.CANCELED

    options = part_options(configuration)
    simulate(tmp_path, scenario, job_master=options.job_master)

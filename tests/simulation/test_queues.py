"""Hundreds of jobs share a few slots.

Invariants under attack: limits are never exceeded, no job starves, and the order survives a
fail-over.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from simulation.faults import fail_over, kill_leader
from simulation.scenarios import FOREVER, MANY_RESTARTS, details_of, job, simulate
from stoker.core.errors import InvalidInput
from stoker.core.graph import JobGraph
from stoker.core.ids import JobId
from stoker.core.states import JobStatus
from stoker.dispatcher.options import QueueOptions
from stoker.testing.history import History
from stoker.testing.simulated_cluster import SimulatedCluster

QUEUES = QueueOptions(
    names=("adhoc",),
    running_jobs={"nightly": "2", "single": "1"},
    slots={"nightly": "3", "default": "5"},
    ageing=timedelta(minutes=2),
)
MOST_JOBS = {"nightly": 2, "single": 1}
MOST_SLOTS = {"nightly": 3, "default": 5}
SEEDS = range(1, 1 + max(1, int(os.environ.get("TEST_SEEDS", "60")) // 30))
"""Fewer seeds than in other modules, because each run takes seconds."""
JOBS = 200


def queued(graph: JobGraph, queue: str, priority: int = 0, slots: int | None = None) -> JobGraph:
    return msgspec.structs.replace(graph, queue=queue, priority=priority, slots=slots)


def most_at_once(history: History, jobs: Iterable[JobId]) -> tuple[int, int]:
    """The largest number of these jobs, and of their tasks, that ran at the same moment."""
    wanted = set(jobs)
    spans = [span for span in history.attempts if span.job_id in wanted]
    ends = {id(span): span.ended if span.ended is not None else float("inf") for span in spans}
    most_jobs = most_tasks = 0
    for moment in {span.began for span in spans}:
        running = [span for span in spans if span.began <= moment < ends[id(span)]]
        most_jobs = max(most_jobs, len({span.job_id for span in running}))
        most_tasks = max(most_tasks, len(running))
    return most_jobs, most_tasks


def assert_limits_held(history: History, queues: Mapping[JobId, str]) -> None:
    for queue in set(queues.values()):
        members = [job_id for job_id, name in queues.items() if name == queue]
        jobs, tasks = most_at_once(history, members)
        assert jobs <= MOST_JOBS.get(queue, jobs), queue
        assert tasks <= MOST_SLOTS.get(queue, tasks), queue


@pytest.mark.parametrize("seed", SEEDS)
def test_hundreds_of_jobs_share_few_slots_through_losses_and_fail_over(
    tmp_path: Path, seed: int
) -> None:
    """Limits are never exceeded, and every job ends, including those of low priority."""
    queues: dict[JobId, str] = {}

    async def scenario(cluster: SimulatedCluster) -> None:
        random = cluster.random

        async def submit_all() -> None:
            for number in range(JOBS):
                queue = random.choice(["nightly", "single", "adhoc", "default"])
                streaming = number % 40 == 0
                graph = job(
                    cluster,
                    seconds=random.choice([0.2, 1, 3, 8]),
                    sinks=random.choice([1, 1, 2, 3]),
                    streaming=streaming,
                    restart=MANY_RESTARTS,
                )
                priority = random.choice([-5, 0, 0, 0, 10])
                job_id = await cluster.submit(queued(graph, queue, priority))
                queues[job_id] = queue
                await asyncio.sleep(random.uniform(0, 0.3))

        async def lose_executors() -> None:
            for _ in range(4):
                await asyncio.sleep(random.uniform(10, 40))
                name = random.choice(["executor-0", "executor-1", "executor-2"])
                if name in cluster.processes:
                    await cluster.kill(name)
                    await asyncio.sleep(random.uniform(1, 20))
                    cluster.start(name)

        async def lose_the_leader() -> None:
            await asyncio.sleep(random.uniform(20, 90))
            await fail_over(cluster)

        await asyncio.gather(submit_all(), lose_executors(), lose_the_leader())
        for job_id in queues:
            assert await cluster.wait_for_end(job_id, patience=7200) is JobStatus.FINISHED

    cluster = simulate(tmp_path, scenario, seed=seed, queues=QUEUES)
    assert len(queues) == JOBS
    assert Counter(queues.values()).keys() == {"nightly", "single", "adhoc", "default"}
    assert_limits_held(cluster.history, queues)


def test_a_queue_admits_jobs_in_order_and_reports_why_the_others_wait(tmp_path: Path) -> None:
    jobs: list[JobId] = []

    async def scenario(cluster: SimulatedCluster) -> None:
        for _ in range(4):
            graph = queued(job(cluster, seconds=10), "nightly")
            jobs.append(await cluster.submit(graph))
            await asyncio.sleep(0.1)
        await asyncio.sleep(2)
        words = [(await details_of(cluster, each)).waiting for each in jobs]
        assert words == [
            None,
            None,
            "needs 1 slot, 4 free; queue nightly is at its limit of 2 running jobs",
            "needs 1 slot, 4 free; queue nightly is at its limit of 2 running jobs; 1 job ahead of "
            "it in the queue",
        ]
        nightly = next(
            queue
            for queue in await cluster.ask(lambda dispatcher: dispatcher.queues())
            if queue.name == "nightly"
        )
        assert (nightly.running, nightly.max_running, nightly.waiting) == (2, 2, tuple(jobs[2:]))
        for each in jobs:
            assert await cluster.wait_for_end(each) is JobStatus.FINISHED

    cluster = simulate(tmp_path, scenario, queues=QUEUES)
    began = [min(s.began for s in cluster.history.attempts if s.job_id == each) for each in jobs]
    assert began == sorted(began)


def test_the_reason_for_waiting_is_up_to_date_whenever_it_is_requested(tmp_path: Path) -> None:
    """The job master asks less and less often, but a client still gets a current answer."""

    async def scenario(cluster: SimulatedCluster) -> None:
        running = [
            await cluster.submit(queued(job(cluster, seconds=FOREVER), "adhoc")) for _ in range(2)
        ]
        await asyncio.sleep(5)
        waits = await cluster.submit(queued(job(cluster, seconds=FOREVER), "adhoc"))
        await asyncio.sleep(60)
        alone = (await details_of(cluster, waits)).waiting
        another = await cluster.submit(queued(job(cluster, seconds=FOREVER), "adhoc"))
        await asyncio.sleep(1)
        together = (await details_of(cluster, waits)).waiting
        assert alone == "needs 1 more slot; 0 of 2 are free"
        assert together == "needs 1 more slot; 0 of 2 are free; 1 other job waits as well"
        for each in (*running, waits, another):
            await cluster.cancel(each)
            await cluster.wait_for_end(each)

    simulate(tmp_path, scenario, executors=1, queues=QUEUES)


def test_the_queue_order_survives_a_fail_over_and_running_jobs_count(tmp_path: Path) -> None:
    jobs: list[JobId] = []

    async def scenario(cluster: SimulatedCluster) -> None:
        for number in range(6):
            graph = queued(job(cluster, seconds=30), "nightly", priority=9 if number == 5 else 0)
            jobs.append(await cluster.submit(graph))
            await asyncio.sleep(0.1)
        await asyncio.sleep(3)
        await kill_leader(cluster)
        for each in jobs:
            assert await cluster.wait_for_end(each) is JobStatus.FINISHED

    cluster = simulate(tmp_path, scenario, queues=QUEUES)
    spans = cluster.history.attempts
    assert len(spans) == 6, "nothing ran twice"
    began = {each: min(s.began for s in spans if s.job_id == each) for each in jobs}
    assert sorted(jobs, key=lambda each: began[each]) == [
        jobs[0],
        jobs[1],
        jobs[5],
        jobs[2],
        jobs[3],
        jobs[4],
    ]
    assert_limits_held(cluster.history, dict.fromkeys(jobs, "nightly"))


def test_a_job_that_waits_in_its_queue_can_be_cancelled_at_once(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        first = await cluster.submit(queued(job(cluster, seconds=FOREVER), "single"))
        second = await cluster.submit(queued(job(cluster), "single"))
        third = await cluster.submit(queued(job(cluster), "single"))
        await cluster.cancel(second)
        assert await cluster.wait_for_end(second, patience=10) is JobStatus.CANCELED
        assert "single is at its limit" in ((await details_of(cluster, third)).waiting or "")
        await cluster.cancel(first)
        assert await cluster.wait_for_end(third) is JobStatus.FINISHED

    cluster = simulate(tmp_path, scenario, queues=QUEUES)
    assert len({span.job_id for span in cluster.history.attempts}) == 2


def test_a_job_that_its_queue_could_never_admit_is_refused_with_the_reason(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        with pytest.raises(InvalidInput, match="there is no queue 'nightli'; did you mean"):
            await cluster.submit(queued(job(cluster), "nightli"))
        with pytest.raises(InvalidInput, match="needs 4 slots and queue nightly has a limit of 3"):
            await cluster.submit(queued(job(cluster, sinks=4), "nightly"))
        narrow = queued(job(cluster, sinks=4), "nightly", slots=2)
        assert await cluster.wait_for_end(await cluster.submit(narrow)) is JobStatus.FINISHED

    cluster = simulate(tmp_path, scenario, queues=QUEUES)
    assert most_at_once(cluster.history, {s.job_id for s in cluster.history.attempts})[1] == 2


def test_streams_that_start_together_neither_deadlock_nor_starve(tmp_path: Path) -> None:
    """Two streams that need four of six slots each, and a flood of small jobs (JM-13)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        streams = [
            await cluster.submit(queued(job(cluster, seconds=20, sinks=4, streaming=True), "adhoc"))
            for _ in range(2)
        ]
        flood = []
        for _ in range(60):
            flood.append(await cluster.submit(queued(job(cluster, seconds=5), "adhoc")))
            await asyncio.sleep(0.8)
        for each in (*streams, *flood):
            assert await cluster.wait_for_end(each, patience=600) is JobStatus.FINISHED

    simulate(tmp_path, scenario, queues=QUEUES)


def test_a_job_of_low_priority_is_not_starved_by_a_flood_of_more_important_jobs(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.submit(queued(job(cluster, seconds=10), "single"))
        low = await cluster.submit(queued(job(cluster), "single", priority=-3))

        async def flood() -> None:
            while True:
                await cluster.submit(queued(job(cluster, seconds=10), "single", priority=1))
                await asyncio.sleep(9)

        flooding = asyncio.create_task(flood())
        try:
            assert await cluster.wait_for_end(low, patience=1200) is JobStatus.FINISHED
            assert not flooding.done(), "more important jobs came until the end"
        finally:
            flooding.cancel()
            await asyncio.gather(flooding, return_exceptions=True)
        for each in list(cluster.history.acknowledged):
            await cluster.wait_for_end(each)

    simulate(tmp_path, scenario, queues=QUEUES)

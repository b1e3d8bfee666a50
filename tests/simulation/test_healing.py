"""Attached jobs, failure histories and decided outputs survive the loss of a process.

Invariants under attack: an attached job ends with its client and not before, and no job fails whose
output was decided, because part of that output may be at its target already.
"""

import asyncio
from collections import Counter
from pathlib import Path

import msgspec

from simulation.faults import leader_of
from simulation.scenarios import FOREVER, MANY_RESTARTS, details_of, job, simulate
from stoker.core.graph import FormatWrite, JobGraph, Sink
from stoker.core.ids import AttemptId, RegionId
from stoker.core.manifests import Manifest, Publication
from stoker.core.states import JobStatus
from stoker.ha.stores.storage_records import PublicationStore
from stoker.testing.simulated_cluster import SimulatedCluster


def test_an_attached_job_ends_when_its_client_is_gone_and_not_before(tmp_path: Path) -> None:
    """One client sends heartbeats for 80 s, the other one never (DISP-29)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        def attached_job() -> JobGraph:
            graph = job(cluster, seconds=FOREVER, streaming=True)
            return msgspec.structs.replace(graph, client_timeout_seconds=20)

        watched = await cluster.submit(attached_job())
        abandoned = await cluster.submit(attached_job())
        for _ in range(8):
            await asyncio.sleep(10)
            await cluster.ask(lambda dispatcher: dispatcher.heartbeat_from_client(watched, 20))
        assert await cluster.wait_for_end(abandoned) is JobStatus.CANCELED
        assert await cluster.status(watched) is JobStatus.RUNNING
        assert await cluster.wait_for_end(watched) is JobStatus.CANCELED

    simulate(tmp_path, scenario)


def test_failures_from_the_time_of_an_earlier_leader_are_still_reported(tmp_path: Path) -> None:
    """The history of a job survives its job master (FAIL-10)."""

    async def scenario(cluster: SimulatedCluster) -> None:
        graph = job(cluster, seconds=6, fails=3, restart=MANY_RESTARTS)
        job_id = await cluster.submit(graph)
        await asyncio.sleep(16)
        before = await details_of(cluster, job_id)
        assert [record.attempt_number for record in before.failures] == [1, 0]
        leader = leader_of(cluster)
        cluster.crash(leader)
        assert await cluster.wait_for_end(job_id) is JobStatus.FINISHED
        after = await details_of(cluster, job_id)
        assert [record.attempt_number for record in after.failures] == [2, 1, 0]
        assert [record.failure.labels["cause"] for record in after.failures] == ["user-code"] * 3

    simulate(tmp_path, scenario)


def test_a_job_whose_executor_dies_after_its_output_was_decided_does_not_fail(
    tmp_path: Path,
) -> None:
    """Neither job has a restart strategy; only the one with a decided output is tried again."""

    async def scenario(cluster: SimulatedCluster) -> None:
        graph = job(cluster, seconds=30)
        write = FormatWrite(format="parquet", path="/out")
        sink = Sink(name="sink-0", input="numbers", write=write)
        graph = msgspec.structs.replace(graph, vertices=(graph.vertices[0], sink))
        lost = msgspec.structs.replace(graph, job_id=cluster.ids.job())
        for each in (graph, lost):
            await cluster.submit(each)
        await asyncio.sleep(5)
        manifest = Manifest(attempt=AttemptId("a"), directory="/staged", files=())
        decided = PublicationStore.of_job(cluster.storage, graph.job_id)
        await decided.decide(RegionId("sink-0"), Publication(manifest=manifest, target="/out"))
        for name in [name for name in cluster.processes if name.startswith("executor")]:
            cluster.crash(name)
            cluster.start(name)
        assert await cluster.wait_for_end(graph.job_id) is JobStatus.FINISHED
        assert await cluster.wait_for_end(lost.job_id) is JobStatus.FAILED
        attempts = Counter(span.job_id for span in cluster.history.attempts)
        assert attempts == {graph.job_id: 2, lost.job_id: 1}

    simulate(tmp_path, scenario)

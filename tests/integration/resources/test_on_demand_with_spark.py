"""A master that starts its task executors on demand, with real Spark (TEST_CHAOS=long)."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import wait_until
from stoker.client.blocking import BlockingClient
from stoker.core.graph import FormatWrite, JobGraph, ResourceProfile, Sink, Source, Sql
from stoker.core.ids import Ids
from stoker.core.states import JobStatus
from stoker.processes.local.cluster import LocalCluster
from stoker.processes.local.cluster_state import ProcessRecord, processes_of

PATIENCE = 170.0
CONFIGURATION = {
    "rest.bind-port": "0",
    "resourcemanager.provider": "local-process",
    "resourcemanager.local-process.max-task-executors": "1",
    "resourcemanager.taskmanager-timeout": "2 s",
    "resourcemanager.check-interval": "1 s",
    "taskmanager.numberOfTaskSlots": "1",
    "slot.request.timeout": "2 s",
    "queues.running-jobs": "nightly:1",
}


def graph(**more: object) -> JobGraph:
    return JobGraph(
        job_id=Ids().job(),
        name="on demand",
        vertices=(
            Source(name="numbers", read=Sql(query="select 1 as id")),
            Sink(name="out", input="numbers", write=FormatWrite(format="noop"), mode="overwrite"),
        ),
        **more,  # type: ignore[arg-type]
    )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """A cluster whose task executors are all started by the master."""
    with LocalCluster(tmp_path / "cluster", tied=True) as local:
        local.start(masters=1, task_executors=0, configuration=json.dumps(CONFIGURATION))
        local.wait_until_ready()
        yield local


def processes_besides_masters(cluster: LocalCluster) -> list[ProcessRecord]:
    """All descendant processes of the cluster except its master."""
    masters = {record.pid for record in cluster.state.masters} if cluster.state else set()
    return [record for record in processes_of(cluster.directory) if record.pid not in masters]


@pytest.mark.skipif(os.environ.get("TEST_CHAOS") != "long", reason="long; test_on_demand is short")
@pytest.mark.timeout(420)
def test_on_demand_task_executors_end_when_idle_or_with_the_master(
    cluster: LocalCluster,
) -> None:
    """A job that nothing could ever serve ends with the reason (POOL-07, RM-18, SM-11)."""
    client = BlockingClient(cluster.masters)
    assert processes_besides_masters(cluster) == []

    huge = client.submit(graph(profile=ResourceProfile(cores=4096)))
    assert client.wait(huge.job_id) is JobStatus.FAILED
    reason = client.job(huge.job_id).failures[0].failure.message
    assert "needs 1 more slot of 4096 cores" in reason
    assert processes_besides_masters(cluster) == [], "no task executor was started for it"

    first = client.submit(graph(queue="nightly"))
    second = client.submit(graph(queue="nightly"))
    words = client.job(second.job_id).waiting or ""
    assert "queue nightly is at its limit of 1 running job" in words
    [nightly] = [queue for queue in client.queues() if queue.name == "nightly"]
    assert (nightly.running, nightly.waiting) == (1, [second.job_id])
    for submitted in (first, second):
        assert client.wait(submitted.job_id) is JobStatus.FINISHED, client.job(submitted.job_id)

    wait_until(lambda: client.overview().taskmanagers == 0, seconds=PATIENCE)
    wait_until(lambda: processes_besides_masters(cluster) == [], seconds=PATIENCE)

    client.submit(graph())
    wait_until(lambda: len(processes_besides_masters(cluster)) > 0, seconds=PATIENCE)
    assert cluster.state is not None
    [master] = cluster.state.masters
    cluster.kill(master)
    wait_until(lambda: processes_of(cluster.directory) == [], seconds=60)

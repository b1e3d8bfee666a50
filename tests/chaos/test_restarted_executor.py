"""A task executor is killed and restarted (TM-22).

Invariant under attack: its jobs get their slots back before other jobs get any of them.
"""

from pathlib import Path

import msgspec
import pytest

from chaos.real_cluster import real_cluster, wait_through_outages
from chaos.workload import ROWS, batch_job, rows_in
from stoker.client.blocking import BlockingClient
from stoker.core.ids import Ids, JobId
from stoker.core.results import AttemptDetails
from stoker.core.states import ExecutionState, JobStatus

pytestmark = pytest.mark.timeout(600)

EXECUTOR = "task-executor-1"
SLOTS = 3


def attempt_of(client: BlockingClient, job_id: JobId) -> AttemptDetails:
    (region,) = client.job(job_id).regions
    return region.current


def test_restarted_jobs_get_their_slots_before_a_waiting_job_of_higher_priority(
    tmp_path: Path,
) -> None:
    ids = Ids()
    long = [
        batch_job(ids, tmp_path / f"long-{number}", seconds=600, restarts=3)
        for number in range(SLOTS)
    ]
    short = msgspec.structs.replace(batch_job(ids, tmp_path / "short"), priority=9)
    with real_cluster(tmp_path / "cluster", masters=1, task_executors=1) as cluster:
        client = cluster.client

        def have_started(number: int) -> bool:
            attempts = [attempt_of(client, graph.job_id) for graph in long]
            return all(
                attempt.number == number and attempt.state is ExecutionState.INITIALIZING
                for attempt in attempts
            )

        for graph in long:
            client.submit(graph)
        wait_through_outages(lambda: have_started(0), "the long jobs have started")
        client.submit(short)
        cluster.kill(EXECUTOR)
        cluster.restart_dead_processes()
        wait_through_outages(lambda: have_started(1), "the long jobs have started again", 120)
        assert attempt_of(client, short.job_id).state is ExecutionState.SCHEDULED
        for graph in long:
            client.cancel(graph.job_id)
        assert client.wait(short.job_id) is JobStatus.FINISHED
        assert rows_in(tmp_path / "short") == ROWS
        for graph in long:
            assert client.wait(graph.job_id) is JobStatus.CANCELED
        kept = cluster.directory / "work" / EXECUTOR / "slots"
        wait_through_outages(lambda: not list(kept.iterdir()), "no file is kept for a free slot")

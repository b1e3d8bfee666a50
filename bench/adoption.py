"""How soon the next leader adopts fifty running jobs, with the embedded coordinator.

The tasks of the jobs only sleep, because the masters are measured and not Spark.
"""

import os
import signal
import time
from typing import Any

from bench.cluster import restart_former_leader, running_cluster
from bench.http_polling import first_answer, leader_and_others
from bench.measure import Sample, Verdict
from bench.sleeping_executor import endless_job, running_sleepers
from stoker.client.blocking import BlockingClient
from stoker.processes.local.cluster import LocalCluster

JOBS = 50
ROUNDS = 3
AIM_SECONDS = 2.5
"""The next leader answers within 0.5 s of the kill, and adopts the jobs within 2 s more."""
_START_TIMEOUT_SECONDS = 120.0


def run() -> list[Verdict]:
    with (
        running_cluster(masters=3, task_executors=0) as cluster,
        running_sleepers(cluster.directory, JOBS),
    ):
        client = BlockingClient(cluster.masters)
        for _ in range(JOBS):
            client.submit(endless_job())
        _wait_until_all_run(cluster)
        values = tuple(_adoption(cluster) * 1000 for _ in range(ROUNDS))
    sample = Sample(f"kill -9, embedded: {JOBS} running jobs adopted", values)
    print(sample, flush=True)
    return [Verdict(sample.name, sample.median / 1000, AIM_SECONDS, "s")]


def _adoption(cluster: LocalCluster) -> float:
    leader, others = leader_and_others(cluster)
    begin = time.perf_counter()
    os.kill(leader, signal.SIGKILL)
    seconds = first_answer(others, begin, "/jobs/overview", _all_run)
    restart_former_leader(cluster)
    return seconds


def _all_run(answer: Any) -> bool:
    """Whether a leader answers that knows a running attempt of every job."""
    return bool(sum(job["tasks"]["running"] for job in answer["jobs"]) == JOBS)


def _wait_until_all_run(cluster: LocalCluster) -> None:
    _, others = leader_and_others(cluster)
    first_answer(others, time.perf_counter(), "/jobs/overview", _all_run, _START_TIMEOUT_SECONDS)

"""How many jobs a second a master accepts durably, with each coordinator.

One client with several connections submits the jobs. Only the way from the request to the durable
record is measured: there is no task executor, and every accepted job has a JobMaster and waits for
slots. BENCH_SUBMISSIONS sets the number of jobs in a round; the default is 300.

On a busy machine the processor time of the master says more than the rate. The case `job-list`
measures submissions while lists of jobs are requested.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from bench.cluster import running_cluster
from bench.measure import Sample, Verdict, processor_seconds
from bench.raw_submissions import small_job
from stoker.client.blocking import BlockingClient
from stoker.core.ids import Ids
from stoker.processes.local.cluster import LocalCluster

JOBS = int(os.environ.get("BENCH_SUBMISSIONS", "300"))
CLIENTS = 16
ROUNDS = 3
AIMS = {"embedded": (0, 100.0), "ZooKeeper, 3 servers": (3, 50.0)}


def run() -> list[Verdict]:
    verdicts = []
    for name, (servers, aim) in AIMS.items():
        with running_cluster(task_executors=0, zookeeper=servers) as cluster:
            url = cluster.urls
            _rate(url, max(1, JOBS // 10))
            before = _processor_seconds(cluster)
            rate = _sample(f"{name}: accepted", [_rate(url, JOBS) for _ in range(ROUNDS)])
            each = (_processor_seconds(cluster) - before) / (JOBS * ROUNDS)
            print(f"{name}: processor time of the master, {each * 1000:.1f} ms a job", flush=True)
        verdicts.append(Verdict(f"submissions, {name}", rate.median, aim, "/s", at_least=True))
    return verdicts


def _sample(name: str, rates: list[float]) -> Sample:
    sample = Sample(name, tuple(rates), "jobs/s")
    print(sample, flush=True)
    return sample


def _processor_seconds(cluster: LocalCluster) -> float:
    state = cluster.state
    assert state is not None
    return processor_seconds(state.masters[0].pid)


def _rate(url: str, jobs: int) -> float:
    ids = Ids()
    graphs = [small_job(ids) for _ in range(jobs)]
    client = BlockingClient(url)
    with ThreadPoolExecutor(CLIENTS) as clients:
        begin = perf_counter()
        accepted = {each.job_id for each in clients.map(client.submit, graphs)}
        elapsed = perf_counter() - begin
    assert len(accepted) == jobs
    return jobs / elapsed

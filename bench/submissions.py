"""How many jobs a second a master accepts durably, over each coordinator.

What becomes of it while the list of all jobs is asked for is another case: `job-list`.

Nothing runs the jobs: what is measured is the way from the request to the record, of one client
with several connections. Every job that was accepted has a master and waits for slots meanwhile.
How many come in one round is STOKER_BENCH_SUBMISSIONS, 300 without it.

The time of the processor that the master takes says more than the rate where others work too.
"""

import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from bench.measure import Sample, Verdict, processor_seconds
from bench.raw_submissions import small_job
from stoker.client.blocking import BlockingClient
from stoker.core.ids import Ids
from stoker.processes.local.cluster import LocalCluster

JOBS = int(os.environ.get("STOKER_BENCH_SUBMISSIONS", "300"))
CLIENTS = 16
ROUNDS = 3
AIMS = {"embedded": (0, 100.0), "ZooKeeper, 3 servers": (3, 50.0)}
CONFIGURATION = "{rest.bind-port: '0'}"


def run() -> list[Verdict]:
    verdicts = []
    for name, (servers, aim) in AIMS.items():
        with _masters(servers) as cluster:
            url = cluster.masters
            _rate(url, max(1, JOBS // 10))
            before = _processor_seconds(cluster)
            alone = _sample(f"{name}: accepted", [_rate(url, JOBS) for _ in range(ROUNDS)])
            each = (_processor_seconds(cluster) - before) / (JOBS * ROUNDS)
            print(f"{name}: processor time of the master, {each * 1000:.1f} ms a job", flush=True)
        verdicts.append(Verdict(f"submissions, {name}", alone.median, aim, "/s", at_least=True))
    return verdicts


def _sample(name: str, rates: list[float]) -> Sample:
    sample = Sample(name, tuple(rates), "jobs/s")
    print(sample, flush=True)
    return sample


@contextmanager
def _masters(zookeeper: int) -> Iterator[LocalCluster]:
    with (
        tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder,
        LocalCluster(Path(folder), tied=True) as cluster,
    ):
        cluster.start(task_executors=0, zookeeper=zookeeper, configuration=CONFIGURATION)
        cluster.wait_until_ready()
        yield cluster


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
        took = perf_counter() - begin
    assert len(accepted) == jobs
    return jobs / took

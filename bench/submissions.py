"""How many jobs a second a master accepts durably, over each coordinator, also while it is asked
for the list of all jobs.

Nothing runs the jobs: what is measured is the way from the request to the record, of one client
with several connections. Every job that was accepted has a master and waits for slots meanwhile.
How many come in one round is STOKER_BENCH_SUBMISSIONS, 300 without it.

The time of the processor that the master takes says more than the rate where others work too.
"""

import itertools
import os
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, sleep

from bench.measure import Sample, Verdict
from stoker import Pipeline
from stoker.client.blocking import BlockingClient
from stoker.core.graph import JobGraph
from stoker.core.ids import Ids
from stoker.processes.local_cluster import LocalCluster

JOBS = int(os.environ.get("STOKER_BENCH_SUBMISSIONS", "300"))
CLIENTS = 16
ROUNDS = 3
ASKED_A_SECOND = 50
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
            with _asking_for_all_jobs(url):
                asked = _sample(f"{name}: accepted, list asked", [_rate(url, JOBS)])
        verdicts += [
            Verdict(f"submissions, {name}", alone.median, aim, "/s", at_least=True),
            Verdict(f"submissions, {name}, list asked", asked.median, aim, "/s", at_least=True),
        ]
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
    fields = Path(f"/proc/{state.masters[0].pid}/stat").read_text().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def _rate(url: str, jobs: int) -> float:
    ids = Ids()
    graphs = [_small_job(ids) for _ in range(jobs)]
    client = BlockingClient(url)
    with ThreadPoolExecutor(CLIENTS) as clients:
        begin = perf_counter()
        accepted = {each.job_id for each in clients.map(client.submit, graphs)}
        took = perf_counter() - begin
    assert len(accepted) == jobs
    return jobs / took


def _small_job(ids: Ids) -> JobGraph:
    pipeline = Pipeline("small")
    pipeline.source("rows", format="json", path="/in")
    pipeline.sink("rows", name="out", format="noop", mode="overwrite")
    return pipeline.build(job_id=ids.job())


@contextmanager
def _asking_for_all_jobs(url: str) -> Iterator[None]:
    over = threading.Event()

    def ask() -> None:
        begin = perf_counter()
        for number in itertools.count():
            if over.is_set():
                return
            sleep(max(0.0, begin + number / ASKED_A_SECOND - perf_counter()))
            with urllib.request.urlopen(f"{url}/jobs/overview?limit=50") as answer:
                answer.read()

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        over.set()
        asking.join()

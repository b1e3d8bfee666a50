"""`GET /jobs/overview` with 10,000 ended jobs, while jobs run and others are submitted.

Everything is real: a master, a task executor with Spark, and running streaming jobs. The ended jobs
are recorded before the master starts, through the master's own result store. The submitted jobs
find no free slot and wait, each with its own JobMaster. Separate processes send the list requests
and the submissions, over open connections.
"""

import asyncio
import json
import os
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

from bench.ended_jobs import record_ended_jobs
from bench.load_generator import ListRequests, run_load
from bench.measure import Verdict
from bench.mixed_load import AIM_P99, Master, MixedLoad
from stoker import Pipeline
from stoker.client.blocking import BlockingClient
from stoker.core.graph import JobGraph
from stoker.core.ids import Ids
from stoker.processes.local.cluster import LocalCluster
from stoker.processes.local.zookeeper import LocalZooKeeper

ENDED_JOBS = int(os.environ.get("BENCH_ENDED", "10000"))
RUNNING_JOBS = 4
LISTS_PER_SECOND = 50
SECONDS = 10
SETTLING_SECONDS = 40
"""Until then Java is still compiling the code of the streams, on all processors."""
COORDINATORS = {"embedded": (0, 100.0, 50.0), "ZooKeeper, 3 servers": (3, 50.0, 25.0)}
"""By coordinator: ZooKeeper servers, the aim in jobs a second, and the offered rate."""
PAGE = "/jobs/overview?limit=50&offset=5000"
WHOLE = "/jobs/overview"
LISTS = (
    ("whole", WHOLE, "identity"),
    ("a page of 50", PAGE, "identity"),
    ("running jobs", "/jobs/overview?state=RUNNING&sort=-last-modification", "identity"),
    ("whole, gzip accepted", WHOLE, "gzip"),
)
CONCURRENT_LISTS = {
    "pages of the list": (PAGE, "identity", 50),
    "whole list": (WHOLE, "identity", ENDED_JOBS),
    "whole list, gzip": (WHOLE, "gzip", ENDED_JOBS),
}
CONFIGURATION = (
    f"{{rest.bind-port: '0', taskmanager.numberOfTaskSlots: {RUNNING_JOBS}, "
    f"job-result-store.max-count: {10 * ENDED_JOBS}, slot.request.timeout: 1 h}}"
)


def run() -> list[Verdict]:
    with _master(0) as master:
        verdicts = [_measure_list(master, *each) for each in LISTS]
    for (name, (servers, aim, offered)), (list_name, (path, encoding, min_jobs)) in product(
        COORDINATORS.items(), CONCURRENT_LISTS.items()
    ):
        with _master(servers) as master:
            lists = ListRequests(master.url, path, LISTS_PER_SECOND, encoding, min_jobs)
            load = MixedLoad(f"{name}, {list_name}", master, lists)
            verdicts += load.measure_offered_rate(offered) + load.measure_maximum_rate(aim)
    return verdicts


def _measure_list(master: Master, name: str, path: str, encoding: str) -> Verdict:
    before = master.processor_seconds
    result = run_load(ListRequests(master.url, path, LISTS_PER_SECOND, encoding), SECONDS)
    used = (master.processor_seconds - before) / len(result.milliseconds)
    print(f"{name}: {result}; processor time {used * 1000:.1f} ms a request", flush=True)
    return Verdict(
        f"list of {ENDED_JOBS} jobs, {name}, p99", result.percentile(0.99), AIM_P99, "ms"
    )


@contextmanager
def _master(zookeeper: int) -> Iterator[Master]:
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        storage = f"{folder}/storage"
        with _coordinator(zookeeper, folder) as high_availability:
            begin = time.perf_counter()
            asyncio.run(record_ended_jobs(ENDED_JOBS, high_availability, storage))
            elapsed = time.perf_counter() - begin
            print(f"{ENDED_JOBS} ended jobs recorded in {elapsed:.0f} s", flush=True)
            with LocalCluster(Path(folder), tied=True) as cluster:
                cluster.start(high_availability=high_availability, configuration=CONFIGURATION)
                cluster.wait_until_ready()
                state = cluster.state
                assert state is not None
                master = Master(cluster.masters, state.masters[0].pid)
                _run_streams(master.url)
                yield master


@contextmanager
def _coordinator(zookeeper: int, folder: str) -> Iterator[str]:
    if not zookeeper:
        yield f"embedded://{folder}/storage/coordinator"
        return
    with LocalZooKeeper(Path(folder) / "zookeeper", servers=zookeeper) as servers:
        yield servers.url()


def _run_streams(url: str) -> None:
    """Submit the streams, and wait until the list shows that they run."""
    client = BlockingClient(url)
    for _ in range(RUNNING_JOBS):
        client.submit(_stream())
    while True:
        with urllib.request.urlopen(f"{url}{WHOLE}") as answer:
            states = [job["state"] for job in json.load(answer)["jobs"]]
        if states.count("RUNNING") == RUNNING_JOBS:
            break
        time.sleep(0.2)
    assert states.count("FINISHED") == ENDED_JOBS, len(states)
    print(f"{RUNNING_JOBS} streaming jobs are running on Spark", flush=True)
    time.sleep(SETTLING_SECONDS)


def _stream() -> JobGraph:
    pipeline = Pipeline("stream")
    pipeline.source("ticks", format="rate", streaming=True)
    pipeline.sink("ticks", name="out", format="noop", trigger="1 second")
    return pipeline.build(job_id=Ids().job())

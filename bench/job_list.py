"""`GET /jobs/overview` with 10,000 ended jobs while jobs run and others are handed in.

Everything is real: a master, a task executor with Spark, streaming jobs that run. The ended jobs
are recorded before the master starts, by the store with which a master records them. Those that
are handed in find no free slot and wait, each with its own master. Whoever asks and hands in does
so from processes of their own, over connections that stay open.
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

from bench.beside_lists import AIM_P99, BesideLists, Master
from bench.ended_jobs import record_ended_jobs
from bench.measure import Verdict
from bench.steady_requests import Question, answers_within
from stoker import Pipeline
from stoker.client.blocking import BlockingClient
from stoker.core.graph import JobGraph
from stoker.core.ids import Ids
from stoker.processes.local.cluster import LocalCluster
from stoker.processes.local.zookeeper import LocalZooKeeper

ENDED = int(os.environ.get("STOKER_BENCH_ENDED", "10000"))
RUNNING = 4
A_SECOND = 50
SECONDS = 10
SETTLING_SECONDS = 40
"""Until then Java compiles what the streams do again and again, and takes all processors for it."""
AIMS = {"embedded": (0, 100.0, 50.0), "ZooKeeper, 3 servers": (3, 50.0, 25.0)}
"""Servers, how many jobs a second shall be accepted, and how many are offered at a steady rate."""
PAGE = "/jobs/overview?limit=50&offset=5000"
WHOLE = "/jobs/overview"
LISTS = (
    ("whole", WHOLE, "identity"),
    ("a page of 50", PAGE, "identity"),
    ("running ones", "/jobs/overview?state=RUNNING&sort=-last-modification", "identity"),
    ("whole, gzip accepted", WHOLE, "gzip"),
)
BESIDE = {
    "list in pages": (PAGE, "identity", 50),
    "whole list": (WHOLE, "identity", ENDED),
    "whole list, gzip": (WHOLE, "gzip", ENDED),
}
CONFIGURATION = (
    f"{{rest.bind-port: '0', taskmanager.numberOfTaskSlots: {RUNNING}, "
    f"job-result-store.max-count: {10 * ENDED}, slot.request.timeout: 1 h}}"
)


def run() -> list[Verdict]:
    with _master(0) as master:
        verdicts = [_asked(master, *each) for each in LISTS]
    for (name, (servers, aim, offered)), (list_name, (path, encoding, least)) in product(
        AIMS.items(), BESIDE.items()
    ):
        with _master(servers) as master:
            question = Question(master.url, path, A_SECOND, encoding, least)
            beside = BesideLists(f"{name}, {list_name}", master, question)
            verdicts += beside.offered(offered) + beside.at_most(aim)
    return verdicts


def _asked(master: Master, name: str, path: str, encoding: str) -> Verdict:
    before = master.processor_seconds
    seen = answers_within(Question(master.url, path, A_SECOND, encoding), SECONDS)
    used = (master.processor_seconds - before) / len(seen.milliseconds)
    print(f"{name}: {seen}; processor {used * 1000:.1f} ms a request", flush=True)
    return Verdict(f"list of {ENDED} jobs, {name}, p99", seen.percentile(0.99), AIM_P99, "ms")


@contextmanager
def _master(zookeeper: int) -> Iterator[Master]:
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        storage = f"{folder}/storage"
        with _coordinator(zookeeper, folder) as high_availability:
            begin = time.perf_counter()
            asyncio.run(record_ended_jobs(ENDED, high_availability, storage))
            took = time.perf_counter() - begin
            print(f"{ENDED} ended jobs were recorded by the result store, {took:.0f} s", flush=True)
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
    """Returns when the list says that all ended ones are there and the streams run."""
    client = BlockingClient(url)
    for _ in range(RUNNING):
        client.submit(_stream())
    while True:
        with urllib.request.urlopen(f"{url}{WHOLE}") as answer:
            states = [job["state"] for job in json.load(answer)["jobs"]]
        if states.count("RUNNING") == RUNNING:
            break
        time.sleep(0.2)
    assert states.count("FINISHED") == ENDED, len(states)
    print(f"{RUNNING} streaming jobs run on Spark", flush=True)
    time.sleep(SETTLING_SECONDS)


def _stream() -> JobGraph:
    pipeline = Pipeline("stream")
    pipeline.source("ticks", format="rate", streaming=True)
    pipeline.sink("ticks", name="out", format="noop", trigger="1 second")
    return pipeline.build(job_id=Ids().job())

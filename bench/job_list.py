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
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.ended_jobs import record_ended_jobs
from bench.measure import Sample, Verdict, processor_seconds, rounds
from bench.raw_submissions import accepted_a_second
from bench.steady_requests import Question, answers_within, asking
from stoker import Pipeline
from stoker.client.blocking import BlockingClient
from stoker.core.graph import JobGraph
from stoker.core.ids import Ids
from stoker.processes.local_cluster import LocalCluster
from stoker.processes.local_zookeeper import LocalZooKeeper

ENDED = int(os.environ.get("STOKER_BENCH_ENDED", "10000"))
RUNNING = 4
A_SECOND = 50
SECONDS = 10
IDLE_SECONDS = 2
JOBS = int(os.environ.get("STOKER_BENCH_SUBMISSIONS", "300"))
ROUNDS = rounds(5)
AIM_P99 = 200.0
AIM_SHARE = 0.95
AIMS = {"embedded": (0, 100.0), "ZooKeeper, 3 servers": (3, 50.0)}
PAGE = "/jobs/overview?limit=50&offset=5000"
WHOLE = "/jobs/overview"
LISTS = (
    ("whole", WHOLE, "identity"),
    ("a page of 50", PAGE, "identity"),
    ("running ones", "/jobs/overview?state=RUNNING&sort=-last-modification", "identity"),
    ("whole, gzip accepted", WHOLE, "gzip"),
)
CONFIGURATION = (
    f"{{rest.bind-port: '0', taskmanager.numberOfTaskSlots: {RUNNING}, "
    f"job-result-store.max-count: {10 * ENDED}, slot.request.timeout: 1 h}}"
)


@dataclass(frozen=True)
class Master:
    url: str
    pid: int

    @property
    def processor_seconds(self) -> float:
        return processor_seconds(self.pid)


def run() -> list[Verdict]:
    verdicts = []
    for name, (servers, aim) in AIMS.items():
        with _master(servers) as master:
            if not servers:
                verdicts += [_asked(master, *each) for each in LISTS]
            verdicts += _with_submissions(f"{name}, list in pages", master, PAGE, aim)
            verdicts += _with_submissions(f"{name}, whole list", master, WHOLE, aim)
    return verdicts


def _asked(master: Master, name: str, path: str, encoding: str) -> Verdict:
    before = master.processor_seconds
    seen = answers_within(Question(master.url, path, A_SECOND, encoding), SECONDS)
    used = (master.processor_seconds - before) / len(seen.milliseconds)
    print(f"{name}: {seen}; processor {used * 1000:.1f} ms a request", flush=True)
    return Verdict(f"list of {ENDED} jobs, {name}, p99", seen.percentile(0.99), AIM_P99, "ms")


@dataclass
class Handed:
    """Rounds of jobs that were handed in, with the list being asked for or not."""

    rates: list[float] = field(default_factory=list)
    processor: float = 0.0
    late: list[float] = field(default_factory=list)
    lists: int = 0


def _with_submissions(name: str, master: Master, path: str, aim: float) -> list[Verdict]:
    """In turn without and with the list being asked, so that what else happens touches both; each
    goes first as often, since the jobs that wait become more."""
    accepted_a_second(master.url, max(1, JOBS // 3))
    alone, asked = Handed(), Handed()
    for number in range(ROUNDS):
        for one in (alone, asked) if number % 2 == 0 else (asked, alone):
            _hand_in(master, one, path if one is asked else None)
    without = Sample(f"{name}: accepted, nobody asks", tuple(alone.rates), "jobs/s")
    during = Sample(f"{name}: accepted, {A_SECOND} lists a second", tuple(asked.rates), "jobs/s")
    answers = Sample(f"{name}: p99 of the lists meanwhile", tuple(asked.late))
    share = median(b / a for a, b in zip(alone.rates, asked.rates, strict=True))
    print(f"{without}\n{during}\n{answers}\n  share of the rate {share:.2f}", flush=True)
    print(
        "  processor time of the master: "
        f"{alone.processor / (ROUNDS * JOBS) * 1000:.1f} ms a job, "
        f"{(asked.processor - alone.processor) / asked.lists * 1000:.1f} ms a list",
        flush=True,
    )
    return [
        Verdict(f"submissions, {name}", during.median, aim, "/s", at_least=True),
        Verdict(f"share of the rate, {name}", share, AIM_SHARE, "", at_least=True),
        Verdict(f"lists meanwhile, {name}, p99", answers.median, AIM_P99, "ms"),
    ]


def _hand_in(master: Master, handed: Handed, path: str | None) -> None:
    idle = _idle_share(master)
    before, begin = master.processor_seconds, time.perf_counter()
    if path is None:
        handed.rates.append(accepted_a_second(master.url, JOBS))
    else:
        with asking(Question(master.url, path, A_SECOND)) as found:
            handed.rates.append(accepted_a_second(master.url, JOBS))
        handed.late.append(found[0].percentile(0.99))
        handed.lists += len(found[0].milliseconds)
    seconds = time.perf_counter() - begin
    handed.processor += master.processor_seconds - before - idle * seconds


def _idle_share(master: Master) -> float:
    """What jobs that run and wait cost without anybody asking: it must not count for who asks."""
    before = master.processor_seconds
    time.sleep(IDLE_SECONDS)
    return (master.processor_seconds - before) / IDLE_SECONDS


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


def _stream() -> JobGraph:
    pipeline = Pipeline("stream")
    pipeline.source("ticks", format="rate", streaming=True)
    pipeline.sink("ticks", name="out", format="noop", trigger="1 second")
    return pipeline.build(job_id=Ids().job())

"""What it costs that a master measures itself, and how soon `/metrics` answers.

`/metrics` is asked at a master with many running streams, whose tasks only sleep, and many ended
jobs. Memory is compared with that of a second master in the same state that measures nothing.

For the cost of measuring, jobs are submitted and run at two clusters side by side, one after the
other in turns, of which one has `metrics.enabled: false`. On a busy machine the processor time of
the master says more than the time that a client sees.
"""

import asyncio
import os
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.burst import CLIENTS
from bench.burst import JOBS as BURST_JOBS
from bench.cluster import running_cluster
from bench.ended_jobs import record_ended_jobs
from bench.measure import Sample, Verdict, milliseconds, processor_seconds, rounds
from bench.raw_submissions import small_job
from bench.sleeping_executor import endless_job, running_sleepers
from bench.small_job import ten_rows
from stoker.client.blocking import BlockingClient
from stoker.core.ids import Ids
from stoker.osproc.process_tree import resident_bytes
from stoker.processes.local.cluster import LocalCluster

RUNNING_JOBS = int(os.environ.get("BENCH_RUNNING", "1000"))
ENDED_JOBS = int(os.environ.get("BENCH_ENDED", "10000"))
SCRAPES = 30
SETTLING_SECONDS = 20
SUBMISSIONS = 100
ROUNDS = rounds(8)
AIM_ANSWER_MS = 50.0
AIM_MEMORY_MB = 10.0
AIM_RATIO = 1.03
_START_TIMEOUT_SECONDS = 600.0


def run() -> list[Verdict]:
    return [*_measure_answers(), *_measure_submissions(), *_measure_jobs()]


def _configuration(*, enabled: bool, **more: object) -> str:
    settings = {
        "rest.bind-port": "'0'",
        "metrics.enabled": str(enabled).lower(),
        "job-result-store.max-count": 10 * ENDED_JOBS,
        "slot.request.timeout": "1 h",
        "rest.server.max-requests-per-second": 0,
        **more,
    }
    return "{" + ", ".join(f"{key}: {value}" for key, value in settings.items()) + "}"


def _measure_answers() -> list[Verdict]:
    sizes = {}
    for enabled in (False, True):
        with _master_with_many_jobs(enabled=enabled) as cluster:
            time.sleep(SETTLING_SECONDS)
            pid = _master_pid(cluster)
            if enabled:
                answers = _scrape(f"{cluster.urls}/metrics", pid)
            sizes[enabled] = resident_bytes(pid) / 1e6
    memory = f"{sizes[False]:.1f} MB without metrics, {sizes[True]:.1f} MB with them"
    print(f"resident memory: {memory}", flush=True)
    state = f"{RUNNING_JOBS} running and {ENDED_JOBS} ended jobs"
    return [
        Verdict(f"/metrics with {state}, median", answers.median, AIM_ANSWER_MS, "ms"),
        Verdict(
            f"memory for metrics with {state}", sizes[True] - sizes[False], AIM_MEMORY_MB, "MB"
        ),
    ]


@contextmanager
def _master_with_many_jobs(*, enabled: bool) -> Iterator[LocalCluster]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stoker-bench-")))
        storage = folder / "storage"
        coordinator = storage / "coordinator"
        coordinator.mkdir(parents=True)
        for path in (folder, storage, coordinator):
            path.chmod(0o700)
        asyncio.run(record_ended_jobs(ENDED_JOBS, f"embedded://{coordinator}", str(storage)))
        cluster = stack.enter_context(LocalCluster(folder, tied=True))
        cluster.start(masters=1, task_executors=0, configuration=_configuration(enabled=enabled))
        cluster.wait_until_ready()
        stack.enter_context(running_sleepers(folder, RUNNING_JOBS))
        client = BlockingClient(cluster.masters)
        with ThreadPoolExecutor(CLIENTS) as clients:
            list(clients.map(lambda _: client.submit(endless_job()), range(RUNNING_JOBS)))
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        while client.overview().slots_available:
            assert time.monotonic() < deadline, "the jobs did not start in time"
            time.sleep(1)
        yield cluster


def _scrape(url: str, pid: int) -> Sample:
    size = 0

    def ask() -> None:
        nonlocal size
        size = len(urllib.request.urlopen(url).read())

    ask()
    before, began = processor_seconds(pid), time.monotonic()
    time.sleep(SETTLING_SECONDS)
    share = (processor_seconds(pid) - before) / (time.monotonic() - began)
    before, began = processor_seconds(pid), time.monotonic()
    answers = Sample("/metrics", tuple(milliseconds(ask) for _ in range(SCRAPES)))
    # What the master uses for its jobs meanwhile is not the cost of an answer.
    used = processor_seconds(pid) - before - share * (time.monotonic() - began)
    each = 1000 * used / SCRAPES
    print(f"{answers}; {size / 1000:.0f} kB; processor time {each:.1f} ms", flush=True)
    return answers


def _master_pid(cluster: LocalCluster) -> int:
    assert cluster.state is not None
    return cluster.state.masters[0].pid


@contextmanager
def _both(task_executors: int, **more: object) -> Iterator[dict[bool, LocalCluster]]:
    """Two clusters side by side, without and with metrics."""
    with ExitStack() as stack:
        yield {
            enabled: stack.enter_context(
                running_cluster(
                    _configuration(enabled=enabled, **more), task_executors=task_executors
                )
            )
            for enabled in (False, True)
        }


def _measure_submissions() -> list[Verdict]:
    ids = Ids()
    used: dict[bool, list[float]] = {False: [], True: []}
    with _both(task_executors=0) as clusters:
        clients = {each: BlockingClient(cluster.masters) for each, cluster in clusters.items()}
        for number in range(ROUNDS + 1):
            for enabled in (False, True) if number % 2 else (True, False):
                pid = _master_pid(clusters[enabled])
                graphs = [small_job(ids) for _ in range(SUBMISSIONS)]
                before = processor_seconds(pid)
                with ThreadPoolExecutor(CLIENTS) as threads:
                    list(threads.map(clients[enabled].submit, graphs))
                if number:
                    used[enabled].append(1000 * (processor_seconds(pid) - before) / SUBMISSIONS)
    return [_ratio("submissions, processor time of the master", used)]


def _measure_jobs() -> list[Verdict]:
    ids = Ids()
    pipeline = ten_rows()
    small: dict[bool, list[float]] = {False: [], True: []}
    burst: dict[bool, list[float]] = {False: [], True: []}
    more = {"taskmanager.numberOfTaskSlots": CLIENTS, "runner.warm": 4}
    with _both(task_executors=1, **more) as clusters:
        clients = {each: BlockingClient(cluster.masters) for each, cluster in clusters.items()}

        def run_one(client: BlockingClient) -> None:
            status = client.wait(client.submit(pipeline.build(job_id=ids.job()), {}).job_id)
            assert status == "FINISHED", status

        def run_many(client: BlockingClient) -> None:
            with ThreadPoolExecutor(CLIENTS) as threads:
                list(threads.map(lambda _: run_one(client), range(BURST_JOBS)))

        _take_turns(clients, run_one, 5 * ROUNDS, small)
        _take_turns(clients, run_many, ROUNDS, burst)
    return [_ratio("small job", small), _ratio(f"burst of {BURST_JOBS} jobs", burst)]


def _take_turns(
    clients: dict[bool, BlockingClient],
    work: Callable[[BlockingClient], None],
    count: int,
    found: dict[bool, list[float]],
) -> None:
    for client in clients.values():
        work(client)
    for number in range(count):
        for enabled in (False, True) if number % 2 else (True, False):
            found[enabled].append(milliseconds(lambda: work(clients[enabled])))  # noqa: B023


def _ratio(name: str, found: dict[bool, list[float]]) -> Verdict:
    without, with_metrics = (
        Sample(f"{name}, {words}", tuple(found[enabled]))
        for enabled, words in ((False, "without metrics"), (True, "with metrics"))
    )
    print(f"{without}\n{with_metrics}", flush=True)
    return Verdict(
        f"{name}, ratio with metrics", with_metrics.median / without.median, AIM_RATIO, "times"
    )

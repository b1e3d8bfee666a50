"""A cluster with tokens under attack keeps answering and running the jobs of others."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from chaos.attackers import HOSTILE_JOBS, attack_at_random, write_hostile_job
from chaos.real_cluster import START_SECONDS
from chaos.workload import ROWS, rows_in
from stoker.client.blocking import BlockingClient
from stoker.client.cluster import Cluster
from stoker.client.options import ClientOptions
from stoker.core.states import JobStatus
from stoker.processes.local.cluster import LocalCluster
from stoker.processes.local.cluster_state import processes_of
from stoker.processes.local.token import token_of

SEED = int(os.environ.get("TEST_CHAOS_SEED", "1"))
ATTACKERS, ATTACKS_EACH = 4, 40
CONFIGURATION = """
rest.bind-port: '0'
taskmanager.memory.spark-heap: 512 mb
taskmanager.numberOfTaskSlots: 4
runner.memory: 512 mb
runner.processes: 60
runner.run-time: 30 s
restart-strategy.type: none
"""
GOOD_JOB = f"""
from stoker import Pipeline
from stoker.core.graph import RestartPolicy

# A job that kills the zygote ends the runners of its neighbours, which start again.
restart = RestartPolicy(strategy="fixed-delay", attempts=10)
good = Pipeline("good", parameters={{"out": ""}}, restart=restart)


@good.source
def rows(spark):
    return spark.range(0, {ROWS}, 1, 1)


good.sink("rows", name="out", format="parquet", path="${{out}}", mode="append")
"""
ACCEPTED = (b" 200 ", b" 201 ", b" 202 ")


@pytest.mark.timeout(600)
def test_attacks_without_a_token_and_hostile_jobs_harm_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The working directory of the jobs.
    monkeypatch.chdir(tmp_path)
    with LocalCluster(tmp_path / "cluster", tied=True) as cluster:
        cluster.start(with_token=True, configuration=CONFIGURATION)
        cluster.wait_until_ready(seconds=START_SECONDS)
        options = ClientOptions(token=token_of(cluster.directory), timeout=timedelta(seconds=30))
        client = Cluster(BlockingClient(cluster.masters, options))
        before = {process.pid for process in processes_of(cluster.directory)}
        (tmp_path / "good.py").write_text(GOOD_JOB)
        port = urlsplit(cluster.urls).port
        assert port is not None
        with ThreadPoolExecutor(ATTACKERS) as pool:
            attacking = [
                pool.submit(attack_at_random, SEED * 1000 + number, port, ATTACKS_EACH)
                for number in range(ATTACKERS)
            ]
            with _AnswerTimes(client) as answers:
                hostile = [
                    client.submit(write_hostile_job(tmp_path, name)) for name in HOSTILE_JOBS
                ]
                _run_good_jobs(client, tmp_path, 5)
                ends = [job.wait(timeout=240) for job in hostile]
                got = [answer for each in attacking for answer in each.result()]
        assert all(status.globally_terminal for status in ends), ends
        admitted = [name for name, answer in got if any(each in answer[:20] for each in ACCEPTED)]
        assert admitted == [], "an attacker without a token was let in"
        assert max(answers.seconds) < 10, "the cluster stopped answering"
        _run_good_jobs(client, tmp_path, 2, "after")
        _wait_until_nothing_is_left(cluster.directory, before)
    assert processes_of(cluster.directory) == []


def _run_good_jobs(client: Cluster, directory: Path, number: int, name: str = "during") -> None:
    for count in range(number):
        out = directory / f"{name}-{count}"
        job = client.submit(directory / "good.py", params={"out": str(out)})
        assert job.wait(timeout=240) is JobStatus.FINISHED, job.exceptions()
        assert rows_in(out) == ROWS


def _wait_until_nothing_is_left(directory: Path, before: set[int]) -> None:
    """Only the cluster's own processes run, and no attempt has a directory."""

    def left() -> list[str]:
        processes = [
            process.name
            for process in processes_of(directory)
            if process.pid not in before and "sleep" in process.name
        ]
        return processes + [str(path) for path in directory.glob("work/*/attempts/*")]

    deadline = time.monotonic() + 60
    while left() and time.monotonic() < deadline:
        time.sleep(0.5)
    assert left() == []


class _AnswerTimes:
    """Asks for the list of jobs all the time, and notes how long each answer took."""

    def __init__(self, client: Cluster) -> None:
        self._client = client
        self.seconds: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="asker")

    def _ask(self) -> None:
        while not self._over.wait(0.2):
            began = time.monotonic()
            self._client.jobs()
            self.seconds.append(time.monotonic() - began)

    def __enter__(self) -> "_AnswerTimes":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

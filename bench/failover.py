"""How soon another master answers and a stream is RUNNING under it, when the leader goes.

Beside them: whether the stream noticed. Its run id, attempt and sequence of batches must be the
same before and after.
"""

import http.client
import itertools
import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measure import Sample, Verdict
from stoker import Pipeline
from stoker.client.blocking import BlockingClient
from stoker.core.ids import Ids, JobId
from stoker.core.results import AttemptDetails
from stoker.core.states import JobStatus
from stoker.processes.local_cluster import LocalCluster
from stoker.processes.local_cluster_state import url_of

ROUNDS = 3
_POLL_SECONDS = 0.01
_LIMIT_SECONDS = 60.0

REFERENCE = (
    "reference, Flink 2.3 over ZooKeeper on the same kind of machine, measured apart from this "
    "run: kill -9 of the leader, session + 0.7 to 1.4 s to answer, 1 to 1.5 s more until the job "
    "runs, every task restarted, about 210 records replayed at a session of 4 s"
)


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    zookeeper: int
    session_seconds: float
    """Of ZooKeeper; 0 where the death is seen at once."""
    number: signal.Signals
    aim_seconds: float
    """From the signal to the first answer."""


CASES = (
    Case(
        name="kill -9, ZooKeeper, session 4 s",
        zookeeper=3,
        session_seconds=4,
        number=signal.SIGKILL,
        aim_seconds=4.5,
    ),
    Case(
        name="SIGTERM, ZooKeeper, session 4 s",
        zookeeper=3,
        session_seconds=4,
        number=signal.SIGTERM,
        aim_seconds=1,
    ),
    Case(
        name="kill -9, ZooKeeper, session 10 s",
        zookeeper=3,
        session_seconds=10,
        number=signal.SIGKILL,
        aim_seconds=10.5,
    ),
    Case(
        name="kill -9, embedded",
        zookeeper=0,
        session_seconds=0,
        number=signal.SIGKILL,
        aim_seconds=0.5,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Takeover:
    answer: float
    running: float
    """Both in seconds after the signal."""
    interrupted: int
    """Batches that were missing or begun anew; all, when another run or attempt goes on."""


def run() -> list[Verdict]:
    verdicts = []
    for zookeeper, session in ((3, 4.0), (3, 10.0), (0, 0.0)):
        cases = [c for c in CASES if (c.zookeeper, c.session_seconds) == (zookeeper, session)]
        with _cluster(zookeeper, session) as cluster:
            stream = _Stream(cluster)
            for case in cases:
                verdicts += _measure(case, stream)
    print(REFERENCE, flush=True)
    return verdicts


def _measure(case: Case, stream: "_Stream") -> list[Verdict]:
    takeovers = [stream.take_over(case.number) for _ in range(ROUNDS)]
    answer = Sample(f"{case.name}: answer", tuple(t.answer * 1000 for t in takeovers))
    running = Sample(f"{case.name}: RUNNING", tuple(t.running * 1000 for t in takeovers))
    interrupted = max(takeover.interrupted for takeover in takeovers)
    print(f"{answer}\n{running}\n{case.name}: batches interrupted: {interrupted}", flush=True)
    return [
        Verdict(f"{case.name}: answer", answer.median / 1000, case.aim_seconds, "s"),
        Verdict(f"{case.name}: interrupted", interrupted, 0, "batches"),
    ]


class _Stream:
    """A job with a batch four times a second, and the masters that it outlives."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        pipeline = Pipeline("rate")
        pipeline.source("ticks", format="rate", streaming=True, options={"rowsPerSecond": "100"})
        pipeline.sink("ticks", name="out", format="noop", trigger="250 milliseconds")
        client = BlockingClient(cluster.masters)
        self._job_id: JobId = client.submit(pipeline.build(job_id=Ids().job())).job_id
        self._wait_for_batch(0)

    def take_over(self, number: signal.Signals) -> Takeover:
        before = self._attempt()
        leader, others = self._leader_and_others()
        seen: list[int] = []
        begin = time.perf_counter()
        os.kill(leader, number)
        answer = self._first(others, begin, "/jobs", self._has_job)
        running = self._first(
            others, begin, f"/jobs/{self._job_id}/details", lambda job: _is_running(job, seen)
        )
        self._wait_for_batch((before.progress.batch_id or 0) + 8, seen)
        after = self._attempt()
        self._mend()
        interrupted = _interrupted(before, after, seen) + self._missing_commits(before, after)
        return Takeover(answer=answer, running=running, interrupted=interrupted)

    def _missing_commits(self, before: AttemptDetails, after: AttemptDetails) -> int:
        """Each batch in between must have been committed, says the query's own checkpoint."""
        (commits,) = (self._cluster.directory / "storage" / "jobs").rglob("commits")
        there = {path.name for path in commits.iterdir()}
        between = range(before.progress.batch_id or 0, (after.progress.batch_id or 0) + 1)
        return sum(str(batch) not in there for batch in between)

    def _has_job(self, answer: Any) -> bool:
        return any(job["id"] == self._job_id for job in answer["jobs"])

    def _first(self, urls: list[str], begin: float, path: str, is_wanted: Any) -> float:
        while True:
            for url in urls:
                answer = _get(url, path)
                if answer is not None and is_wanted(answer):
                    return time.perf_counter() - begin
            passed = time.perf_counter() - begin
            assert passed < _LIMIT_SECONDS, f"no answer within {_LIMIT_SECONDS:g} s"
            time.sleep(_POLL_SECONDS)

    def _attempt(self) -> AttemptDetails:
        return BlockingClient(self._cluster.masters).job(self._job_id).regions[0].current

    def _wait_for_batch(self, batch: int, seen: list[int] | None = None) -> None:
        client = BlockingClient(self._cluster.masters)
        while True:
            job = client.job(self._job_id)
            found = job.regions[0].current.progress.batch_id if job.regions else None
            if found is not None and seen is not None:
                seen.append(found)
            if job.status is JobStatus.RUNNING and found is not None and found >= batch:
                return
            time.sleep(0.1)

    def _leader_and_others(self) -> tuple[int, list[str]]:
        """The leader is the one whose log speaks of the highest epoch."""
        state = self._cluster.state
        assert state is not None
        leader = max(state.masters, key=lambda master: _last_epoch(Path(master.log)))
        urls = [url_of(self._cluster.directory, m) for m in state.masters if m is not leader]
        return leader.pid, [url for url in urls if url]

    def _mend(self) -> None:
        while (state := self._cluster.state) is not None and not state.dead:
            time.sleep(0.05)
        self._cluster.start_missing()
        self._cluster.wait_until_ready()
        # What starts takes the machine's cores for a while, and would be measured next.
        time.sleep(2)


def _interrupted(before: AttemptDetails, after: AttemptDetails, seen: list[int]) -> int:
    first, last = before.progress.batch_id or 0, after.progress.batch_id or 0
    if (before.attempt, before.progress.run_id) != (after.attempt, after.progress.run_id):
        return max(1, last - first)
    return sum(later < former for former, later in itertools.pairwise(seen))


def _is_running(job: Any, seen: list[int]) -> bool:
    (region,) = job["regions"] or [None]
    if region is None:
        return False
    batch = region["current"].get("progress", {}).get("batch_id")
    if batch is not None:
        seen.append(batch)
    return job["status"] == "RUNNING" and region["current"]["state"] == "RUNNING"


def _last_epoch(log: Path) -> int:
    lines = [line for line in log.read_text().splitlines() if " leads, epoch " in line]
    return int(lines[-1].rpartition(" ")[2]) if lines else -1


def _get(url: str, path: str) -> Any:
    """None when it does not answer, or answers that nobody leads."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=2)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return json.loads(body) if response.status == 200 else None


@contextmanager
def _cluster(zookeeper: int, session_seconds: float) -> Iterator[LocalCluster]:
    settings = {
        "rest.bind-port": "'0'",
        "taskmanager.memory.spark-heap": "512 mb",
        "high-availability.zookeeper.client.session-timeout": f"{session_seconds or 4:g} s",
    }
    configuration = "\n".join(f"{key}: {value}" for key, value in settings.items())
    with (
        tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder,
        LocalCluster(Path(folder), tied=True) as cluster,
    ):
        cluster.start(masters=3, task_executors=1, zookeeper=zookeeper, configuration=configuration)
        cluster.wait_until_ready()
        yield cluster

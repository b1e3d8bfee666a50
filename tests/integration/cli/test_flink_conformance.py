"""A real cluster with batch, failed and streaming jobs answers in Flink's format."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from builders import wait_until
from contract import flink_facts
from contract.flink_facts import misplaced_moments
from contract.test_flink_conformance import check, gets
from integration.cli.conftest import CommandLine
from stoker.processes.local.cluster_state import urls_of
from stoker.rest.flink.operations_table import OPERATIONS, Support

FACTS = {(each.method, each.path): each for each in flink_facts.read_table()}
PATIENCE_SECONDS = 90.0
DAY_MS = 24 * 3600 * 1000
pytestmark = pytest.mark.timeout(400)

PROGRAM = """
import sys
from stoker import Pipeline

kind = sys.argv[1]
job = Pipeline(kind)

@job.source
def numbers(spark):
    if kind == "failing":
        return 1 / 0
    if kind == "streaming":
        return spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    return spark.range(1000)

@job.transform
def counted(numbers):
    column = numbers["value" if kind == "streaming" else "id"]
    return numbers.groupBy((column % 3).alias("k")).count()

how = {"mode": "complete", "trigger": "1 second"} if kind == "streaming" else {"mode": "overwrite"}
job.sink("counted", name="out", format="noop", **how)
"""


@dataclass(frozen=True)
class Cluster:
    http: httpx.Client
    directory: Path
    batch: str
    failing: str
    streaming: str
    executor: str

    def get(self, path: str) -> Any:
        answer = self.http.get(path)
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()

    def fill_in(self, path: str, job_id: str) -> str:
        return path.format_map(
            {
                "jobid": job_id,
                "applicationid": job_id,
                "vertexid": self.vertex(job_id) if "{vertexid}" in path else "",
                "subtaskindex": "0",
                "attempt": "0",
                "taskmanagerid": self.executor,
                "checkpointid": self.checkpoint() if "{checkpointid}" in path else "",
            }
        )

    def vertex(self, job_id: str) -> str:
        found = [each for each in self.get(f"/jobs/{job_id}")["vertices"] if each["name"] == "out"]
        return str(found[0]["id"])

    def checkpoint(self) -> str:
        latest = self.get(f"/jobs/{self.streaming}/checkpoints")["latest"]["completed"]
        return str(latest["id"])

    def wait_for_result(self, template: str, path: str) -> Any:
        """Poll until an operation is completed; the format of every answer is checked."""
        answers = []

        def is_completed() -> bool:
            answer = self.http.get(path)
            check(answer, FACTS["GET", template])
            answers.append(answer.json())
            return bool(answers[-1]["status"]["id"] == "COMPLETED")

        wait_until(is_completed, f"{path} is completed", PATIENCE_SECONDS)
        return answers[-1]["operation"]


def run(http: httpx.Client, program: str, kind: str) -> str:
    body = {"programArgsList": [kind], "parallelism": 2}
    answer = http.post(f"/jars/{program}/run", json=body)
    check(answer, FACTS["POST", "/jars/{jarid}/run"])
    return str(answer.json()["jobid"])


def wait_for(http: httpx.Client, job_id: str, state: str) -> None:
    def is_reached() -> bool:
        return bool(http.get(f"/jobs/{job_id}/status").json()["status"] == state)

    wait_until(is_reached, f"job {job_id} is {state}", PATIENCE_SECONDS)


def wait_for_checkpoint(http: httpx.Client, job_id: str) -> None:
    def has_checkpoint() -> bool:
        return bool(http.get(f"/jobs/{job_id}/checkpoints").json()["counts"]["completed"])

    wait_until(has_checkpoint, f"job {job_id} has a checkpoint", PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def cluster(stoker: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    (url,) = urls_of(stoker.directory, stoker.state)
    with httpx.Client(base_url=url, timeout=60, trust_env=False, headers=stoker.headers) as http:
        uploaded = http.post("/jars/upload", files={"jarfile": ("jobs.py", PROGRAM)})
        check(uploaded, FACTS["POST", "/jars/upload"])
        program = uploaded.json()["filename"].rpartition("/")[2]
        streaming = run(http, program, "streaming")
        batch = run(http, program, "batch")
        failing = run(http, program, "failing")
        wait_for(http, batch, "FINISHED")
        wait_for(http, failing, "FAILED")
        wait_for_checkpoint(http, streaming)
        (executor,) = http.get("/taskmanagers").json()["taskmanagers"]
        try:
            yield Cluster(
                http,
                tmp_path_factory.mktemp("savepoints"),
                batch,
                failing,
                streaming,
                executor["id"],
            )
        finally:
            check(http.delete(f"/jars/{program}"), FACTS["DELETE", "/jars/{jarid}"])
            # A test may have stopped the streaming job already.
            http.patch(f"/jobs/{streaming}")


def test_every_get_request_is_answered_in_flinks_format(cluster: Cluster) -> None:
    for operation in gets():
        jobs = [cluster.streaming, cluster.batch, cluster.failing]
        if "{jobid}" not in operation.path and "{applicationid}" not in operation.path:
            jobs = jobs[:1]
        for job_id in jobs:
            answer = cluster.http.get(cluster.fill_in(operation.path, job_id))
            if "/checkpoints" in operation.path and job_id != cluster.streaming:
                assert answer.status_code == 404, operation.path
            elif "{attempt}" in operation.path and job_id == cluster.failing:
                assert answer.status_code in (200, 404), answer.text
            else:
                check(answer, operation)
                now = int(time.time() * 1000)
                assert misplaced_moments(answer.json(), operation, now, DAY_MS) == [], answer.url


def test_a_disabled_feature_is_refused_with_a_reason(cluster: Cluster) -> None:
    for operation in OPERATIONS:
        if operation.kind is not Support.OFF:
            continue
        path = cluster.fill_in(
            operation.path.replace("{rescaleuuid}", "1").replace("{triggerid}", "1" * 32),
            cluster.streaming,
        )
        answer = cluster.http.request(operation.method, path)
        assert answer.status_code in (400, 404, 503), path
        assert answer.json()["errors"], path


def test_figures_describe_the_jobs_and_processes_that_ran(cluster: Cluster) -> None:
    overview = cluster.get("/overview")
    assert overview["slots-total"] == 2
    jobs = {each["jid"]: each for each in cluster.get("/jobs/overview")["jobs"]}
    assert jobs[cluster.batch]["jobType"] == "BATCH"
    assert jobs[cluster.streaming]["jobType"] == "STREAMING"
    assert 0 < jobs[cluster.batch]["duration"] < 1000 * PATIENCE_SECONDS
    now = int(time.time() * 1000)
    assert (
        now - 3600_000 < jobs[cluster.batch]["start-time"] < jobs[cluster.batch]["end-time"] <= now
    )
    executor = cluster.get(f"/taskmanagers/{cluster.executor}")
    assert executor["hardware"]["cpuCores"] > 0
    assert executor["hardware"]["physicalMemory"] > 2**28
    figures = cluster.get(
        f"/taskmanagers/{cluster.executor}/metrics?get=Status.JVM.Memory.Heap.Used"
    )
    assert float(figures[0]["value"]) > 2**20
    config = cluster.get(f"/jobs/{cluster.streaming}/config")["execution-config"]
    assert config["user-config"]["spark.sql.shuffle.partitions"] == "2"
    entry = cluster.get(f"/jobs/{cluster.failing}/exceptions")["exceptionHistory"]["entries"][0]
    assert "ZeroDivisionError" in entry["exceptionName"]
    result = cluster.get(f"/jobs/{cluster.failing}/execution-result")["job-execution-result"]
    assert result["application-status"] == "FAILED"
    assert "ZeroDivisionError" in result["failure-cause"]["stack-trace"]


def test_logs_and_thread_dumps_come_from_the_processes(cluster: Cluster) -> None:
    """Every listed log can be read, also by its name (REST-22)."""
    for process in ("/jobmanager", f"/taskmanagers/{cluster.executor}"):
        dump = cluster.get(f"{process}/thread-dump")["threadInfos"]
        assert any("MainThread" in each["threadName"] for each in dump)
        assert any(".py" in each["stringifiedThreadInfo"] for each in dump)
        listed = cluster.get(f"{process}/logs")["logs"]
        assert listed
        log = cluster.http.get(f"{process}/log")
        assert log.status_code == 200
        assert log.text
        named = cluster.http.get(f"{process}/logs/{listed[0]['name']}")
        assert len(named.content) >= listed[0]["size"]
        assert cluster.http.get(f"{process}/stdout").status_code == 200
    assert cluster.batch in cluster.http.get("/jobmanager/log").text


def test_operations_are_triggered_and_reported_in_flinks_format(cluster: Cluster) -> None:
    """The last operation ends the streaming job (OPS-01)."""
    job = f"/jobs/{cluster.streaming}"
    begun = cluster.http.post(f"{job}/checkpoints", json={"checkpointType": "FULL"})
    check(begun, FACTS["POST", "/jobs/{jobid}/checkpoints"])
    path = f"{job}/checkpoints/{begun.json()['request-id']}"
    made = cluster.wait_for_result("/jobs/{jobid}/checkpoints/{triggerid}", path)
    assert made["checkpointId"] > 0

    body: dict[str, Any] = {"target-directory": str(cluster.directory), "cancel-job": False}
    begun = cluster.http.post(f"{job}/savepoints", json=body)
    check(begun, FACTS["POST", "/jobs/{jobid}/savepoints"])
    template = "/jobs/{jobid}/savepoints/{triggerid}"
    taken = cluster.wait_for_result(template, f"{job}/savepoints/{begun.json()['request-id']}")
    assert Path(taken["location"]).is_dir()

    for path, gone in ((taken["location"], True), ("/nowhere", False)):
        begun = cluster.http.post("/savepoint-disposal", json={"savepoint-path": path})
        check(begun, FACTS["POST", "/savepoint-disposal"])
        template = "/savepoint-disposal/{triggerid}"
        outcome = cluster.wait_for_result(
            template, f"/savepoint-disposal/{begun.json()['request-id']}"
        )
        assert ("failure-cause" not in outcome) is gone
    assert not Path(taken["location"]).exists()

    stopped = cluster.http.post(f"{job}/stop", json={"targetDirectory": str(cluster.directory)})
    check(stopped, FACTS["POST", "/jobs/{jobid}/stop"])
    template = "/jobs/{jobid}/savepoints/{triggerid}"
    taken = cluster.wait_for_result(template, f"{job}/savepoints/{stopped.json()['request-id']}")
    wait_for(cluster.http, cluster.streaming, "FINISHED")
    assert Path(taken["location"]).is_dir()
    late = cluster.http.patch(job, params={"mode": "cancel"})
    assert late.status_code == 409

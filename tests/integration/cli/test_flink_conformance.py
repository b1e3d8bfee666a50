"""Answers of a real cluster with a batch, a failed and a streaming job, in Flink's form."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

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
class Scene:
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

    def concrete(self, path: str, job_id: str) -> str:
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

    def completed(self, template: str, path: str) -> Any:
        """What an operation came to; every answer on the way is compared as well."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self.http.get(path)
            check(answer, FACTS["GET", template])
            if answer.json()["status"]["id"] == "COMPLETED":
                return answer.json()["operation"]
            assert time.monotonic() < deadline, path
            time.sleep(0.1)


def run(http: httpx.Client, program: str, kind: str) -> str:
    body = {"programArgsList": [kind], "parallelism": 2}
    answer = http.post(f"/jars/{program}/run", json=body)
    check(answer, FACTS["POST", "/jars/{jarid}/run"])
    return str(answer.json()["jobid"])


def wait_for(http: httpx.Client, job_id: str, state: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (found := http.get(f"/jobs/{job_id}/status").json()["status"]) != state:
        assert time.monotonic() < deadline, f"job {job_id} is {found}, not {state}"
        time.sleep(0.1)


def wait_for_checkpoint(http: httpx.Client, job_id: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not http.get(f"/jobs/{job_id}/checkpoints").json()["counts"]["completed"]:
        assert time.monotonic() < deadline, f"job {job_id} has made no checkpoint"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def scene(stoker: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    (url,) = urls_of(stoker.directory, stoker.state)
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
        uploaded = http.post("/jars/upload", files={"jarfile": ("scene.py", PROGRAM)})
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
            yield Scene(
                http,
                tmp_path_factory.mktemp("savepoints"),
                batch,
                failing,
                streaming,
                executor["id"],
            )
        finally:
            check(http.delete(f"/jars/{program}"), FACTS["DELETE", "/jars/{jarid}"])
            # Those that a test has stopped are gone already.
            http.patch(f"/jobs/{streaming}")


def test_every_question_is_answered_in_flinks_form(scene: Scene) -> None:
    for operation in gets():
        jobs = [scene.streaming, scene.batch, scene.failing]
        if "{jobid}" not in operation.path and "{applicationid}" not in operation.path:
            jobs = jobs[:1]
        for job_id in jobs:
            answer = scene.http.get(scene.concrete(operation.path, job_id))
            if "/checkpoints" in operation.path and job_id != scene.streaming:
                assert answer.status_code == 404, operation.path
            elif "{attempt}" in operation.path and job_id == scene.failing:
                assert answer.status_code in (200, 404), answer.text
            else:
                check(answer, operation)
                now = int(time.time() * 1000)
                assert misplaced_moments(answer.json(), operation, now, DAY_MS) == [], answer.url


def test_a_disabled_feature_is_refused_with_a_reason(scene: Scene) -> None:
    for operation in OPERATIONS:
        if operation.kind is not Support.OFF:
            continue
        path = scene.concrete(
            operation.path.replace("{rescaleuuid}", "1").replace("{triggerid}", "1" * 32),
            scene.streaming,
        )
        answer = scene.http.request(operation.method, path)
        assert answer.status_code in (400, 404, 503), path
        assert answer.json()["errors"], path


def test_figures_are_those_of_what_really_ran(scene: Scene) -> None:
    overview = scene.get("/overview")
    assert overview["slots-total"] == 2
    jobs = {each["jid"]: each for each in scene.get("/jobs/overview")["jobs"]}
    assert jobs[scene.batch]["jobType"] == "BATCH"
    assert jobs[scene.streaming]["jobType"] == "STREAMING"
    assert 0 < jobs[scene.batch]["duration"] < 1000 * PATIENCE_SECONDS
    now = int(time.time() * 1000)
    assert now - 3600_000 < jobs[scene.batch]["start-time"] < jobs[scene.batch]["end-time"] <= now
    executor = scene.get(f"/taskmanagers/{scene.executor}")
    assert executor["hardware"]["cpuCores"] > 0
    assert executor["hardware"]["physicalMemory"] > 2**28
    figures = scene.get(f"/taskmanagers/{scene.executor}/metrics?get=Status.JVM.Memory.Heap.Used")
    assert float(figures[0]["value"]) > 2**20
    config = scene.get(f"/jobs/{scene.streaming}/config")["execution-config"]
    assert config["user-config"]["spark.sql.shuffle.partitions"] == "2"
    entry = scene.get(f"/jobs/{scene.failing}/exceptions")["exceptionHistory"]["entries"][0]
    assert "ZeroDivisionError" in entry["exceptionName"]
    result = scene.get(f"/jobs/{scene.failing}/execution-result")["job-execution-result"]
    assert result["application-status"] == "FAILED"
    assert "ZeroDivisionError" in result["failure-cause"]["stack-trace"]


def test_logs_and_threads_are_those_of_the_processes(scene: Scene) -> None:
    """REST-22"""
    for process in ("/jobmanager", f"/taskmanagers/{scene.executor}"):
        dump = scene.get(f"{process}/thread-dump")["threadInfos"]
        assert any("MainThread" in each["threadName"] for each in dump)
        assert any(".py" in each["stringifiedThreadInfo"] for each in dump)
        listed = scene.get(f"{process}/logs")["logs"]
        assert listed
        log = scene.http.get(f"{process}/log")
        assert log.status_code == 200
        assert log.text
        named = scene.http.get(f"{process}/logs/{listed[0]['name']}")
        assert len(named.content) >= listed[0]["size"]
        assert scene.http.get(f"{process}/stdout").status_code == 200
    assert scene.batch in scene.http.get("/jobmanager/log").text


def test_operations_are_triggered_and_reported_in_flinks_form(scene: Scene) -> None:
    """OPS-01. The last one of them ends the streaming job."""
    job = f"/jobs/{scene.streaming}"
    begun = scene.http.post(f"{job}/checkpoints", json={"checkpointType": "FULL"})
    check(begun, FACTS["POST", "/jobs/{jobid}/checkpoints"])
    path = f"{job}/checkpoints/{begun.json()['request-id']}"
    made = scene.completed("/jobs/{jobid}/checkpoints/{triggerid}", path)
    assert made["checkpointId"] > 0

    body: dict[str, Any] = {"target-directory": str(scene.directory), "cancel-job": False}
    begun = scene.http.post(f"{job}/savepoints", json=body)
    check(begun, FACTS["POST", "/jobs/{jobid}/savepoints"])
    template = "/jobs/{jobid}/savepoints/{triggerid}"
    taken = scene.completed(template, f"{job}/savepoints/{begun.json()['request-id']}")
    assert Path(taken["location"]).is_dir()

    for path, gone in ((taken["location"], True), ("/nowhere", False)):
        begun = scene.http.post("/savepoint-disposal", json={"savepoint-path": path})
        check(begun, FACTS["POST", "/savepoint-disposal"])
        template = "/savepoint-disposal/{triggerid}"
        outcome = scene.completed(template, f"/savepoint-disposal/{begun.json()['request-id']}")
        assert ("failure-cause" not in outcome) is gone
    assert not Path(taken["location"]).exists()

    stopped = scene.http.post(f"{job}/stop", json={"targetDirectory": str(scene.directory)})
    check(stopped, FACTS["POST", "/jobs/{jobid}/stop"])
    template = "/jobs/{jobid}/savepoints/{triggerid}"
    taken = scene.completed(template, f"{job}/savepoints/{stopped.json()['request-id']}")
    wait_for(scene.http, scene.streaming, "FINISHED")
    assert Path(taken["location"]).is_dir()
    late = scene.http.patch(job, params={"mode": "cancel"})
    assert late.status_code == 409

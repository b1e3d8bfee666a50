"""Stoker has every operation of Flink 2.3, and its answers have Flink's fields and types."""

from typing import Any

import httpx
import pytest

from contract import flink_facts
from stoker.core.ids import vertex_hex_id
from stoker.core.states import ApplicationStatus
from stoker.rest.app import HANDLERS
from stoker.rest.flink.operations_table import OPERATIONS, Support
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import (
    CANCELED,
    EXECUTOR,
    FAILED,
    FINISHED,
    NOW,
    RUNNING,
    STREAM,
    streaming_details,
)

TABLE = flink_facts.read_table()
JOBS = (RUNNING, FINISHED, FAILED, CANCELED, STREAM)
DAY_MS = 24 * 3600 * 1000
CHECKPOINT = str(streaming_details().checkpoints.latest_completed.id)


def concrete(path: str, job_id: str, vertex: str = "orders") -> str:
    values = {
        "jobid": job_id,
        "applicationid": job_id,
        "vertexid": vertex_hex_id(job_id, vertex),  # type: ignore[arg-type]
        "subtaskindex": "0",
        "attempt": "0",
        "taskmanagerid": EXECUTOR,
        "checkpointid": CHECKPOINT,
    }
    return path.format_map(values)


def gets() -> list[flink_facts.Operation]:
    classes = {(each.method, each.path): each.kind for each in OPERATIONS}
    needs_more = ("{triggerid}", "{jarid}", "{rescaleuuid}")
    return [
        each
        for each in TABLE
        if each.method == "GET"
        and classes.get((each.method, each.path)) not in (None, Support.OFF)
        and not any(name in each.path for name in needs_more)
    ]


def test_the_table_has_every_operation_of_flinks_document() -> None:
    assert len(TABLE) == 80
    assert len({(each.method, each.path) for each in TABLE}) == 80


def test_every_operation_of_flink_is_classified_and_has_a_handler() -> None:
    served = {
        (method, path)
        for handler in HANDLERS
        for method in handler.methods
        for path in handler.paths
    }
    classed = {(each.method, each.path) for each in OPERATIONS}
    assert {(each.method, each.path) for each in TABLE} <= classed
    assert classed <= served


@pytest.mark.parametrize("operation", gets(), ids=lambda each: each.path)
async def test_an_answer_has_the_fields_and_types_of_flinks_answer(
    operation: flink_facts.Operation,
) -> None:
    async with streaming_master().in_process() as http:
        for job_id in JOBS if "jobid" in operation.path else (RUNNING,):
            path = concrete(operation.path, job_id)
            answer = await http.get(path)
            if "checkpoints" in path and job_id != STREAM:
                assert answer.status_code == 404, path
            else:
                check(answer, operation)
                faults = flink_facts.misplaced_moments(answer.json(), operation, NOW, DAY_MS)
                assert faults == [], path


def streaming_master() -> Master:
    master = Master()
    master.dispatcher.jobs[STREAM] = streaming_details()
    return master


def check(answer: httpx.Response, operation: flink_facts.Operation) -> None:
    assert answer.status_code == operation.status, (answer.url, answer.text)
    faults = flink_facts.differences(answer.json(), operation)
    assert flink_facts.unexcused(faults) == [], answer.url


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", f"/jobs/{'0' * 32}", None, 404),
        ("GET", "/jobs/xyz", None, 400),
        ("GET", f"/jobs/{'1' * 31}", None, 400),
        ("GET", "/nope", None, 404),
        ("GET", "/v1/nope", None, 404),
        ("GET", "/v2/jobs", None, 404),
        ("POST", "/overview", {}, 404),
        ("DELETE", "/jobs", None, 404),
        ("PATCH", f"/jobs/{'0' * 32}?mode=cancel", None, 404),
        ("PATCH", f"/jobs/{FINISHED}?mode=cancel", None, 409),
        ("PATCH", f"/jobs/{FAILED}?mode=cancel", None, 409),
        ("PATCH", f"/jobs/{RUNNING}?mode=foo", None, 400),
        ("PATCH", f"/jobs/{RUNNING}?mode=cancel", None, 202),
        ("PATCH", f"/jobs/{RUNNING}/clientHeartbeat", {"expiredTimestamp": 1}, 202),
        ("GET", f"/jobs/{RUNNING}/yarn-cancel", None, 202),
        ("GET", f"/jobs/{RUNNING}/vertices/{'0' * 32}", None, 404),
        ("GET", concrete("/jobs/{jobid}/vertices/{vertexid}/subtasks/99", RUNNING), None, 404),
        ("GET", concrete("/jobs/{jobid}/vertices/{vertexid}/subtasks/x", RUNNING), None, 400),
        ("GET", f"/jobs/{RUNNING}/execution-result", None, 200),
        ("GET", f"/jobs/{FAILED}/execution-result", None, 200),
        ("GET", f"/jobs/{FINISHED}/checkpoints", None, 404),
        ("GET", f"/jobs/{FINISHED}/checkpoints/config", None, 404),
        ("GET", f"/jobs/{RUNNING}/rescales/overview", None, 404),
        ("DELETE", "/jars/nope.jar", None, 400),
        ("POST", "/jars/nope.jar/run", {}, 404),
        ("POST", "/jobs", {}, 400),
        ("GET", f"/datasets/delete/{'0' * 32}", None, 404),
        ("POST", f"/applications/{RUNNING}/cancel", None, 202),
        ("GET", "/taskmanagers/nope", None, 404),
    ],
)
async def test_the_status_code_is_that_of_flink(
    method: str, path: str, body: Any, status: int
) -> None:
    """Where Flink answers 500 for an unknown object, Stoker answers 404 (RM-13)."""
    async with Master().in_process() as http:
        answer = await http.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    if status >= 400:
        assert list(answer.json()) == ["errors"]
        assert all(isinstance(each, str) for each in answer.json()["errors"])


async def test_metrics_can_be_selected_and_aggregated() -> None:
    async with Master().in_process() as http:
        names = (await http.get("/taskmanagers/metrics")).json()
        chosen = (await http.get("/jobs/metrics?get=numRestarts&agg=max,sum")).json()
        numbers = await http.get(
            concrete("/jobs/{jobid}/vertices/{vertexid}/subtasks/metrics", RUNNING)
            + "?get=numRecordsIn&subtasks=0-1"
        )
        bad = await http.get("/jobs/metrics?agg=median")
    assert {"id": "Status.JVM.CPU.Load"} in names
    assert chosen == [{"id": "numRestarts", "max": 0.0, "sum": 0.0}]
    assert numbers.json()[0]["sum"] == 200.0
    assert bad.status_code == 400


@pytest.mark.parametrize(
    ("text", "answer", "faults"),
    [
        ("GET /a 200\n  b whole !", {"b": 1}, 0),
        ("GET /a 200\n  b whole !", {"b": True}, 1),
        ("GET /a 200\n  b whole !", {}, 1),
        ("GET /a 200\n  b whole ?", {}, 0),
        ("GET /a 200\n  b whole ?", {"c": 1}, 1),
        ("GET /a 200\n  b list !\n  b[] object !\n  b[].c text !", {"b": [{}]}, 1),
        ("GET /a 200\n  b map !\n  b.* whole !", {"b": {"x": 1, "y": "z"}}, 1),
    ],
)
def test_the_comparison_finds_every_difference(text: str, answer: Any, faults: int) -> None:
    operation = flink_facts.read_table(text)[0]
    assert len(flink_facts.differences(answer, operation)) == faults


@pytest.mark.parametrize(
    ("answer", "faults"),
    [
        ({"at": 1_000_000_000_500, "duration": 20, "s": {"RUNNING": -1}}, 0),
        ({"at": 1_000_000_000, "duration": 20, "s": {"RUNNING": 0}}, 1),
        ({"at": 0, "duration": 1_000_000_000_000, "s": {"RUNNING": 5}}, 2),
    ],
)
def test_times_and_durations_of_the_wrong_magnitude_are_found(answer: Any, faults: int) -> None:
    text = "GET /a 200\n  at whole ! ms\n  duration whole ! ms\n  s map !\n  s.* whole ! ms"
    operation = flink_facts.read_table(text)[0]
    found = flink_facts.misplaced_moments(answer, operation, 1_000_000_000_000, 3_600_000)
    assert len(found) == faults


def test_an_exception_excuses_one_field_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    excused = "job.cause.object: missing"
    monkeypatch.setitem(flink_facts.EXCEPTIONS, excused, "there is none")
    place, _, fault = excused.partition(": ")
    beside = [f"{place}.more: {fault}", f"{place}: 1 is not text", place.rpartition(".")[0]]
    assert flink_facts.unexcused([excused, f".{excused}", *beside]) == beside


async def test_the_log_of_the_master_is_streamed_and_unknown_files_are_404() -> None:
    """Names that would lead out of the log directory are unknown, too (REST-22, REST-23)."""
    master = Master()
    async with master.in_process() as http:
        whole = await http.get("/jobmanager/log")
        named = await http.get("/jobmanager/logs/process.log")
        foreign = [
            await http.get(f"/jobmanager/logs/{name}")
            for name in ("..%2f..%2fetc%2fpasswd", "nope.log", "%2e%2e")
        ]
        executor = await http.get(f"/taskmanagers/{EXECUTOR}/log")
    assert (
        whole.content == named.content == executor.content == master.inspection.files["process.log"]
    )
    assert [answer.status_code for answer in foreign] == [404, 404, 404]


async def test_a_request_shuts_the_cluster_down() -> None:
    master = Master()
    async with master.in_process() as http:
        answer: httpx.Response = await http.delete("/cluster")
        await http.delete("/cluster")
    assert (answer.status_code, answer.json()) == (200, {})
    assert master.dispatcher.shut_down_as == [ApplicationStatus.SUCCEEDED] * 2

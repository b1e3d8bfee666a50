"""Requests about jobs and the cluster: the calls to the dispatcher and the answers."""

import asyncio
import json
import logging

import pytest

from builders import virtual, wait_until_quiet
from stoker.core.errors import (
    CallTimedOut,
    FencingTokenMismatch,
    NoLeader,
    RecipientUnreachable,
    RemoteError,
)
from stoker.core.ids import vertex_hex_id
from stoker.core.states import JobStatus
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import CANCELED, FAILED, FINISHED, RUNNING, START, UNKNOWN


@pytest.mark.parametrize("query", ["?mode=cancel", ""])
async def test_cancel_is_accepted_with_and_without_a_body(query: str) -> None:
    """Flink's clients send an empty object (REST-11)."""
    master = Master()
    async with master.in_process() as http:
        for body in ({}, None):
            answer = await http.patch(f"/jobs/{RUNNING}{query}", json=body)
            assert (answer.status_code, answer.json()) == (202, {})
    assert master.dispatcher.cancelled == [RUNNING, RUNNING]


@pytest.mark.parametrize(
    ("job_id", "mode", "status", "message"),
    [
        (UNKNOWN, "cancel", 404, f"no job with id {UNKNOWN}"),
        (FINISHED, "cancel", 409, "has ended as FINISHED"),
        (FAILED, "cancel", 409, "has ended as FAILED"),
        (RUNNING, "foo", 400, "mode must be cancel, found 'foo'"),
        (RUNNING, "stop", 308, "mode=stop was removed"),
        ("xyz", "cancel", 400, "32 hexadecimal digits"),
    ],
)
async def test_an_impossible_cancellation_says_why(
    job_id: str, mode: str, status: int, message: str
) -> None:
    """The job is unknown or has ended, or the request itself is wrong (REST-11)."""
    async with Master().in_process() as http:
        answer = await http.patch(f"/v1/jobs/{job_id}", params={"mode": mode})
    assert answer.status_code == status
    assert message in answer.json()["errors"][0]


async def test_a_cancelled_job_may_be_cancelled_again() -> None:
    async with Master().in_process() as http:
        assert (await http.patch(f"/jobs/{CANCELED}?mode=cancel")).status_code == 202


async def test_a_cancellation_that_takes_too_long_is_408() -> None:
    """The dispatcher did not answer in time (REST-11)."""
    master = Master()
    master.dispatcher.refusal = CallTimedOut("cancel_job took too long")
    async with master.in_process() as http:
        assert (await http.patch(f"/jobs/{RUNNING}")).status_code == 408


async def test_a_result_is_in_progress_until_the_job_has_ended() -> None:
    """Then it has the final state, and the cause of a failure (REST-12)."""
    async with Master().in_process() as http:
        running = (await http.get(f"/jobs/{RUNNING}/execution-result")).json()
        finished = (await http.get(f"/jobs/{FINISHED}/execution-result")).json()
        failed = (await http.get(f"/jobs/{FAILED}/execution-result")).json()
    assert running == {"status": {"id": "IN_PROGRESS"}}
    assert finished["status"] == {"id": "COMPLETED"}
    assert finished["job-execution-result"]["application-status"] == "SUCCEEDED"
    assert finished["job-execution-result"]["net-runtime"] == 60
    cause = failed["job-execution-result"]["failure-cause"]
    assert cause["class"] == "AnalysisException"
    assert cause["stack-trace"].startswith("AnalysisException: no column")


async def test_the_status_can_be_awaited() -> None:
    master = Master()
    async with master.in_process() as http:
        answer = await http.get(f"/jobs/{RUNNING}/status?wait=20&known=CREATED")
        assert answer.json() == {"status": "RUNNING"}
        await http.get(f"/jobs/{FINISHED}/status?wait=9999&known=running")
    assert master.dispatcher.waits == [((JobStatus.CREATED,), 20.0), ((JobStatus.RUNNING,), 30.0)]


@virtual
async def test_the_end_can_be_awaited_whatever_comes_before_it() -> None:
    master = Master()
    async with master.in_process() as http:
        path = f"/jobs/{RUNNING}/status?wait=20&known=CREATED,RUNNING,RESTARTING"
        answer = asyncio.create_task(http.get(path))
        for status in (JobStatus.RESTARTING, JobStatus.RUNNING, JobStatus.FINISHED):
            await wait_until_quiet()
            assert not answer.done()
            master.dispatcher.set_status(RUNNING, status)
        assert (await answer).json() == {"status": "FINISHED"}
        late = await http.get(f"/jobs/{FAILED}/status?wait=0.05&known=FAILED,RUNNING")
    assert late.json() == {"status": "FAILED"}, "the wait ended at its time limit"


@pytest.mark.parametrize(
    "query", ["wait=1", "known=RUNNING", "wait=x&known=RUNNING", "wait=-1&known=RUNNING",
              "wait=1&known=DREAMING", "wait=1&known=RUNNING,"]
)  # fmt: skip
async def test_a_malformed_wait_is_400(query: str) -> None:
    """The error names the parameter (REST-03)."""
    async with Master().in_process() as http:
        answer = await http.get(f"/jobs/{RUNNING}/status?{query}")
    assert answer.status_code == 400
    assert "wait" in answer.text or "known" in answer.text


async def test_exceptions_are_listed_newest_first_up_to_the_limit() -> None:
    """They can be filtered by label (REST-15)."""
    async with Master().in_process() as http:
        everything = (await http.get(f"/jobs/{FAILED}/exceptions")).json()["exceptionHistory"]
        cut = (await http.get(f"/jobs/{FAILED}/exceptions?maxExceptions=2")).json()
        labelled = (
            await http.get(f"/jobs/{FAILED}/exceptions?failureLabelFilter=kind:user")
        ).json()
    assert [entry["timestamp"] - START for entry in everything["entries"]] == [2, 1, 0]
    assert everything["truncated"] is False
    assert len(cut["exceptionHistory"]["entries"]) == 2
    assert cut["exceptionHistory"]["truncated"] is True
    assert [entry["timestamp"] - START for entry in labelled["exceptionHistory"]["entries"]] == [1]


@pytest.mark.parametrize("query", ["maxExceptions=0", "maxExceptions=x", "failureLabelFilter=x"])
async def test_a_bad_query_names_its_parameter(query: str) -> None:
    """So its sender knows what to correct (REST-03)."""
    async with Master().in_process() as http:
        answer = await http.get(f"/jobs/{FAILED}/exceptions?{query}")
    assert answer.status_code == 400
    assert query.split("=", maxsplit=1)[0] in answer.json()["errors"][0]


async def test_a_vertex_shared_by_two_regions_counts_both() -> None:
    """A count that is not complete says so (REST-13)."""
    async with Master().in_process() as http:
        job = (await http.get(f"/jobs/{RUNNING}")).json()
    vertices = {vertex["name"]: vertex for vertex in job["vertices"]}
    assert vertices["orders"]["parallelism"] == 2
    assert vertices["orders"]["tasks"]["RUNNING"] == 2
    assert vertices["orders"]["metrics"]["read-records"] == 200
    assert vertices["big"]["metrics"]["write-records"] == 40
    assert vertices["big"]["metrics"]["write-bytes-complete"] is False
    assert job["status-counts"]["RUNNING"] == 3
    assert job["end-time"] == -1
    assert job["duration"] == job["now"] - job["start-time"]


async def test_the_plan_joins_vertices_by_their_ids_and_escapes_user_texts() -> None:
    async with Master().in_process() as http:
        nodes = (await http.get(f"/jobs/{RUNNING}/plan")).json()["plan"]["nodes"]
    assert nodes[0]["inputs"][0]["id"] == vertex_hex_id(RUNNING, "orders") == nodes[-1]["id"]
    assert nodes[-1]["description"] == "Source: orders<br/>+- json &lt;in/&gt;<br/>"


async def test_an_unknown_task_executor_is_404() -> None:
    async with Master().in_process() as http:
        answer = await http.get("/taskmanagers/nobody")
    assert answer.status_code == 404
    assert "nobody" in answer.json()["errors"][0]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/nope"), ("GET", "/v1/nope"), ("GET", "/v2/jobs"), ("POST", "/overview"),
     ("DELETE", "/jobs"), ("POST", "/"), ("PUT", "/v1")],
)  # fmt: skip
async def test_an_unknown_path_and_a_wrong_method_are_404(method: str, path: str) -> None:
    async with Master().in_process() as http:
        answer = await http.request(method, path)
    assert answer.status_code == 404
    assert answer.json()["errors"][0].startswith(f"Not found: {method}")


@pytest.mark.parametrize(
    "refusal",
    [
        NoLeader("no master leads"),
        RecipientUnreachable("the dispatcher is gone"),
        FencingTokenMismatch("an old leader was asked"),
    ],
)
async def test_without_a_leading_dispatcher_the_answer_is_503_with_retry_after(
    refusal: Exception,
) -> None:
    """It has the reason, too (REST-02)."""
    master = Master()
    master.dispatcher.refusal = refusal
    async with master.in_process() as http:
        answer = await http.get("/jobs")
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["errors"] == [str(refusal)]


@pytest.mark.parametrize("refusal", [ZeroDivisionError("secret inside"), RemoteError("Boom")])
async def test_an_unexpected_error_is_500_with_an_id_that_is_in_the_log(
    refusal: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    master = Master()
    master.dispatcher.refusal = refusal
    with caplog.at_level(logging.ERROR, logger="stoker.rest"):
        async with master.in_process() as http:
            answer = await http.get("/jobs")
    assert answer.status_code == 500
    [message] = answer.json()["errors"]
    assert "Traceback" not in message
    assert str(refusal) not in message
    assert message.split()[2].rstrip(";") in caplog.text


async def test_details_show_everything_about_a_job() -> None:
    async with Master().in_process() as http:
        details = json.loads((await http.get(f"/jobs/{RUNNING}/details")).content)
    assert [region["id"] for region in details["regions"]] == ["big", "small"]
    assert details["regions"][0]["current"]["progress"]["tasks_total"] == 4

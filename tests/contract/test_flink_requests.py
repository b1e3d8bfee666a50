"""Requests that change something, and requests for their status, get answers in Flink's form."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest

from contract import flink_facts
from contract.test_flink_conformance import check, concrete
from stoker.core.checkpoints import SavepointTaken
from stoker.core.errors import CannotTakeSavepoint
from stoker.core.graph import Restore
from stoker.core.ids import JobId, vertex_hex_id
from stoker.core.replacements import Replacement, ReplacementPhase
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus
from stoker.gateways.dispatcher import SavepointStatus
from stoker.rest.flink.operations_table import OPERATIONS, Support
from stoker.rest.jobs import checkpoint_handlers
from stoker.rest.programs import handlers as program_handlers
from stoker.rest.programs.runs import CompiledProgram
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import FINISHED, NEW, RUNNING, STREAM, new_graph, streaming_details
from unit.rest.control.test_savepoints import SavepointDispatcher

FACTS = {(each.method, each.path): each for each in flink_facts.read_table()}
TRIGGER = "7" * 32
DONE = SavepointStatus(done=True, taken=SavepointTaken(path="/saved/one"))
LOST = SavepointStatus(done=True, error="SavepointFailed", message="the disk is full")
PENDING = SavepointStatus(done=False)
EXERCISED = {
    "POST /applications/{applicationid}/cancel",
    "DELETE /cluster",
    "POST /jars/upload",
    "POST /jars/{jarid}/plan",
    "POST /jars/{jarid}/run",
    "POST /jars/{jarid}/run-application",
    "DELETE /jars/{jarid}",
    "PATCH /jobs/{jobid}",
    "POST /jobs/{jobid}/checkpoints",
    "PATCH /jobs/{jobid}/clientHeartbeat",
    "PATCH /jobs/{jobid}/rescaling",
    "PUT /jobs/{jobid}/resource-requirements",
    "POST /jobs/{jobid}/savepoints",
    "POST /jobs/{jobid}/stop",
    "POST /savepoint-disposal",
}


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch) -> Master:
    monkeypatch.setattr(checkpoint_handlers, "_POLL_SECONDS", 0)
    master = Master()
    master.dispatcher.jobs[STREAM] = streaming_details()
    return master


def test_every_request_that_changes_something_is_exercised_here() -> None:
    classes = {(each.method, each.path): each.kind for each in OPERATIONS}
    changing = {
        f"{method} {path}"
        for method, path in FACTS
        if method != "GET" and classes[method, path] is Support.SERVED
    }
    assert changing == EXERCISED


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/applications/{applicationid}/cancel", None),
        ("DELETE", "/cluster", None),
        ("PATCH", "/jobs/{jobid}", None),
        ("PATCH", "/jobs/{jobid}/clientHeartbeat", {"expiredTimestamp": 1}),
        ("POST", "/jobs/{jobid}/checkpoints", {"checkpointType": "FULL"}),
        ("POST", "/jobs/{jobid}/savepoints", {"target-directory": "/s", "cancel-job": False}),
        ("POST", "/jobs/{jobid}/stop", {"targetDirectory": "/s", "drain": False}),
        ("POST", "/savepoint-disposal", {"savepoint-path": "/saved/one"}),
    ],
)
async def test_the_answer_to_a_change_has_flinks_form(
    master: Master, method: str, path: str, body: Any
) -> None:
    SavepointDispatcher(master, DONE)
    async with master.in_process() as http:
        answer = await http.request(method, concrete(path, STREAM), json=body)
        check(answer, FACTS[method, path])
    if not FACTS[method, path].fields:
        assert answer.json() == {}


async def completed(http: httpx.AsyncClient, template: str, path: str) -> Any:
    """Wait until the operation is completed; check the form of every answer on the way."""
    async with asyncio.timeout(60):
        while True:
            answer = await http.get(path)
            check(answer, FACTS["GET", template])
            if answer.json()["status"]["id"] == "COMPLETED":
                return answer.json()["operation"]
            await asyncio.sleep(0)


@pytest.mark.parametrize("request_path", ["savepoints", "stop"])
@pytest.mark.parametrize("outcome", [DONE, LOST])
async def test_the_status_of_a_savepoint_has_flinks_form_before_and_after_its_end(
    master: Master, request_path: str, outcome: SavepointStatus
) -> None:
    saving = SavepointDispatcher(master, PENDING)
    path, template = f"/jobs/{STREAM}/savepoints", "/jobs/{jobid}/savepoints/{triggerid}"
    async with master.in_process() as http:
        begun = await http.post(f"/jobs/{STREAM}/{request_path}", json={"triggerId": TRIGGER})
        assert begun.json() == {"request-id": TRIGGER}
        pending = await http.get(f"{path}/{TRIGGER}")
        check(pending, FACTS["GET", template])
        assert pending.json() == {"status": {"id": "IN_PROGRESS"}, "operation": None}
        saving.answer = outcome
        operation = await completed(http, template, f"{path}/{TRIGGER}")
    assert operation.keys() == ({"location"} if outcome is DONE else {"failure-cause"})


async def test_an_impossible_savepoint_is_refused_at_once(master: Master) -> None:
    SavepointDispatcher(master, CannotTakeSavepoint("it is no streaming job"))
    async with master.in_process() as http:
        refused = await http.post(f"/jobs/{RUNNING}/savepoints", json={"triggerId": TRIGGER})
        unknown = await http.get(f"/jobs/{RUNNING}/savepoints/{TRIGGER}")
    assert (refused.status_code, unknown.status_code) == (409, 404)


@pytest.mark.parametrize(("savepoint", "field"), [("/saved/one", None), ("/gone", "failure-cause")])
async def test_the_status_of_a_disposal_has_flinks_form(
    master: Master, savepoint: str, field: str | None
) -> None:
    SavepointDispatcher(master, DONE)
    async with master.in_process() as http:
        begun = await http.post("/savepoint-disposal", json={"savepoint-path": savepoint})
        template = "/savepoint-disposal/{triggerid}"
        trigger = begun.json()["request-id"]
        operation = await completed(http, template, f"/savepoint-disposal/{trigger}")
    assert list(operation) == ([field] if field else [])


def after_another_batch(job: JobDetails) -> JobDetails:
    regions = []
    for region in job.regions:
        progress = msgspec.structs.replace(region.current.progress, batch_id=8)
        current = msgspec.structs.replace(region.current, progress=progress)
        regions.append(msgspec.structs.replace(region, current=current))
    return msgspec.structs.replace(job, regions=tuple(regions))


async def test_a_triggered_checkpoint_ends_with_its_number_in_the_history(
    master: Master,
) -> None:
    """It is in progress until Spark commits another batch (REST-21)."""
    template, path = "/jobs/{jobid}/checkpoints/{triggerid}", f"/jobs/{STREAM}/checkpoints"
    job = master.dispatcher.jobs[STREAM]
    async with master.in_process() as http:
        trigger = (await http.post(path, json={})).json()["request-id"]
        pending = await http.get(f"{path}/{trigger}")
        check(pending, FACTS["GET", template])
        assert pending.json()["status"]["id"] == "IN_PROGRESS"
        master.dispatcher.jobs[STREAM] = after_another_batch(job)
        operation = await completed(http, template, f"{path}/{trigger}")
        details = await http.get(f"{path}/details/{operation['checkpointId']}")
    assert details.status_code == 200


async def test_a_triggered_checkpoint_fails_with_the_reason_when_the_job_ends_first(
    master: Master,
) -> None:
    """Spark will commit no batch any more (REST-21)."""
    template, path = "/jobs/{jobid}/checkpoints/{triggerid}", f"/jobs/{STREAM}/checkpoints"
    job = master.dispatcher.jobs[STREAM]
    async with master.in_process() as http:
        trigger = (await http.post(path, json={})).json()["request-id"]
        ended = msgspec.structs.replace(job, status=JobStatus.CANCELED)
        master.dispatcher.jobs[STREAM] = ended
        operation = await completed(http, template, f"{path}/{trigger}")
    assert "CANCELED" in operation["failure-cause"]["stack-trace"]


async def test_a_program_is_uploaded_planned_run_and_deleted_with_answers_in_flinks_form(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def compiled(*given: Any) -> AsyncIterator[CompiledProgram]:
        yield CompiledProgram(graph=new_graph(), files={})

    monkeypatch.setattr(program_handlers, "compile_program", compiled)
    async with master.in_process() as http:
        files = {"jarfile": ("copy.py", b"print()")}
        uploaded = await http.post("/jars/upload", files=files)
        check(uploaded, FACTS["POST", "/jars/upload"])
        program = "/jars/" + uploaded.json()["filename"].rpartition("/")[2]
        check(await http.get("/jars"), FACTS["GET", "/jars"])
        for action in ("plan", "run", "run-application"):
            answer = await http.post(f"{program}/{action}", json={})
            check(answer, FACTS["POST", f"/jars/{{jarid}}/{action}"])
        check(await http.get(f"{program}/plan"), FACTS["POST", "/jars/{jarid}/plan"])
        restored = {"savepointPath": "/saved/one", "allowNonRestoredState": True}
        await http.post(f"{program}/run", json=restored)
        in_body = master.dispatcher.graphs[NEW].restore
        query = {"savepointPath": "/saved/two", "allowNonRestoredState": "false"}
        await http.post(f"{program}/run", params=query)
        in_query = master.dispatcher.graphs[NEW].restore
        check(await http.delete(program), FACTS["DELETE", "/jars/{jarid}"])
    assert in_body == Restore(path="/saved/one", allow_non_restored_state=True)
    assert in_query == Restore(path="/saved/two")


def replacement_of(master: Master, trigger_id: str, **changes: Any) -> Replacement:
    """The triggered replacement, after these changes are applied to it."""
    known = master.dispatcher.replacements
    known[trigger_id] = msgspec.structs.replace(known[trigger_id], **changes)
    return known[trigger_id]


@pytest.mark.parametrize("phase", [ReplacementPhase.DONE, ReplacementPhase.ROLLED_BACK])
async def test_a_rescale_is_triggered_and_its_status_has_flinks_form(
    master: Master, phase: ReplacementPhase
) -> None:
    path, template = f"/jobs/{STREAM}/rescaling", "/jobs/{jobid}/rescaling/{triggerid}"
    async with master.in_process() as http:
        begun = await http.patch(f"{path}?parallelism=7")
        check(begun, FACTS["PATCH", "/jobs/{jobid}/rescaling"])
        trigger = begun.json()["request-id"]
        assert replacement_of(master, trigger).partitions == 7
        pending = await http.get(f"{path}/{trigger}")
        check(pending, FACTS["GET", template])
        assert pending.json() == {"status": {"id": "IN_PROGRESS"}, "operation": None}
        replacement_of(master, trigger, phase=phase, reason="it cannot be divided")
        operation = await completed(http, template, f"{path}/{trigger}")
        unknown = await http.get(f"{path}/{TRIGGER}")
    assert unknown.status_code == 404
    assert list(operation) == ([] if phase is ReplacementPhase.DONE else ["failure-cause"])


def bounds(upper: int, lower: int = 1) -> dict[str, Any]:
    return {"parallelism": {"lowerBound": lower, "upperBound": upper}}


async def test_a_change_of_requirements_repartitions_a_streaming_job(master: Master) -> None:
    path = f"/jobs/{STREAM}/resource-requirements"
    async with master.in_process() as http:
        shown = (await http.get(path)).json()
        same = await http.put(path, json=shown)
        assert master.dispatcher.replacements == {}
        changed = await http.put(path, json=dict.fromkeys(shown, bounds(6)))
        (trigger,) = master.dispatcher.replacements
        followed = await http.get(changed.headers["location"])
    assert set(map(str, shown.values())) == {str(bounds(4))}
    for answer in (same, changed):
        check(answer, FACTS["PUT", "/jobs/{jobid}/resource-requirements"])
        assert answer.json() == {}
    assert replacement_of(master, trigger).partitions == 6
    assert followed.json()["operation"]["phase"] == "STOPPING"


@pytest.mark.parametrize(
    ("job", "wanted", "status", "message"),
    [
        (STREAM, {"big": bounds(0)}, 400, "lowerBound <= upperBound"),
        (STREAM, {"big": bounds(2, lower=3)}, 400, "lowerBound <= upperBound"),
        (STREAM, {"big": bounds(2), "small": bounds(3)}, 400, "one number for all vertices"),
        (STREAM, {"nope": bounds(2)}, 400, "by their ids"),
        (STREAM, {}, 400, "by their ids"),
        (RUNNING, {"big": bounds(2)}, 409, "is a batch job"),
        (FINISHED, {"big": bounds(2)}, 409, "has ended as FINISHED"),
    ],
)
async def test_impossible_requirements_are_refused_with_the_reason(
    master: Master, job: JobId, wanted: dict[str, Any], status: int, message: str
) -> None:
    """No replacement is triggered (DISP-26)."""
    body = {vertex_hex_id(job, name): each for name, each in wanted.items()}
    async with master.in_process() as http:
        answer = await http.put(f"/jobs/{job}/resource-requirements", json=body)
    assert answer.status_code == status
    assert message in answer.json()["errors"][0]
    assert master.dispatcher.replacements == {}


async def test_a_job_that_configures_its_own_parallelism_is_not_rescaled(master: Master) -> None:
    job = master.dispatcher.jobs[STREAM]
    configuration = {"pipeline.jobvertex-parallelism-overrides": "big:9"}
    master.dispatcher.jobs[STREAM] = msgspec.structs.replace(job, configuration=configuration)
    async with master.in_process() as http:
        shown = (await http.get(f"/jobs/{STREAM}/resource-requirements")).json()
        refused = await http.patch(f"/jobs/{STREAM}/rescaling?parallelism=2")
    assert shown[vertex_hex_id(STREAM, "big")] == bounds(9)
    assert shown[vertex_hex_id(STREAM, "small")] == bounds(200)
    assert refused.status_code == 409


async def test_a_data_set_is_never_found(master: Master) -> None:
    async with master.in_process() as http:
        deleted = await http.delete(f"/datasets/{TRIGGER}")
    assert deleted.status_code == 404

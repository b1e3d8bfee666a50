"""GET /openapi.json"""

import asyncio
import threading

import jsonschema
import pytest

from stoker.rest import app
from stoker.rest.app import HANDLERS
from stoker.rest.http.routing import Router, get
from stoker.security.tokens import Permission
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import EXECUTOR, FAILED, FINISHED, RUNNING


async def test_the_document_describes_every_handler_once() -> None:
    async with Master().in_process() as http:
        answer = await http.get("/openapi.json")
    document = answer.json()
    described = {
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
    }
    expected = {
        (method, path)
        for handler in HANDLERS
        for method in handler.methods
        for path in handler.paths
    }
    assert answer.headers["content-type"].startswith("application/json")
    assert document["openapi"].startswith("3.1")
    assert described == expected


async def test_answers_conform_to_the_document() -> None:
    requests = {
        "/jobs": "/jobs",
        "/jobs/overview": "/jobs/overview",
        "/overview": "/overview",
        "/config": "/config",
        "/taskmanagers": "/taskmanagers",
        "/taskmanagers/{taskmanagerid}": f"/taskmanagers/{EXECUTOR}",
    }
    of_a_job = ["", "/details", "/status", "/execution-result", "/plan", "/exceptions", "/config"]
    async with Master().in_process() as http:
        document = (await http.get("/openapi.json")).json()
        for template, path in requests.items():
            _validate(document, template, (await http.get(path)).json())
        for job_id in (RUNNING, FINISHED, FAILED):
            for suffix in of_a_job:
                answer = await http.get(f"/jobs/{job_id}{suffix}")
                _validate(document, "/jobs/{jobid}" + suffix, answer.json())


def _validate(document: dict, path: str, answer: object) -> None:
    content = document["paths"][path]["get"]["responses"]["200"]["content"]
    schema = content["application/json"]["schema"]
    jsonschema.Draft202012Validator({"components": document["components"], **schema}).validate(
        answer
    )


async def test_every_operation_describes_its_authentication_and_its_response_headers() -> None:
    async with Master().in_process() as http:
        document = (await http.get("/openapi.json")).json()
        headers = (await http.get("/jobs")).headers
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert {"token": []} in document["security"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            answers = operation["responses"]
            assert {"401", "403", "429"} <= answers.keys(), (method, path)
            assert "Retry-After" in answers["429"]["headers"]
            assert "WWW-Authenticate" in answers["401"]["headers"]
            for answer in answers.values():
                described = answer["headers"]["x-content-type-options"]["schema"]["const"]
                assert described == headers["x-content-type-options"]


async def test_operations_that_flink_lacks_are_described_too() -> None:
    async with Master().in_process() as http:
        paths = (await http.get("/openapi.json")).json()["paths"]
    assert {"/savepoints", "/queues", "/quarantine"} <= paths.keys()
    assert {"/events", "/events/log", "/jobs/{jobid}/details"} <= paths.keys()


async def test_the_submission_is_described_as_multipart() -> None:
    async with Master().in_process() as http:
        document = (await http.get("/v1/openapi.json")).json()
    body = document["paths"]["/jobs"]["post"]["requestBody"]["content"]
    assert set(body["multipart/form-data"]["schema"]["properties"]) == {"graph", "artifact"}


def test_two_handlers_for_one_path_are_refused_at_the_start() -> None:
    @get("/overview", needs=Permission.QUERY)
    async def second() -> None: ...

    with pytest.raises(ValueError, match="two handlers for GET /overview"):
        Router((*HANDLERS, second))


async def test_the_document_is_generated_outside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Generating the document takes more than a second, and the event loop also renews leases."""
    others_had_a_turn = threading.Event()

    def made(_version: str) -> bytes:
        return b"{}" if others_had_a_turn.wait(30) else b"null"

    monkeypatch.setattr(app, "_document", made)
    async with Master().in_process() as http:
        asked = asyncio.create_task(http.get("/openapi.json"))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.05, others_had_a_turn.set)
        answer = await asked
    assert answer.json() == {}

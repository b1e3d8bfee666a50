"""The metrics of a master over HTTP."""

from pathlib import Path

import msgspec
import pytest

from stoker.gateways.resourcemanager import TaskExecutorDetails
from stoker.metrics.catalogue import REST_DURATION, REST_REQUESTS, SUBMISSIONS
from stoker.security.tokens import Role, Token, TokenFile, hash_of, text_of
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import FINISHED, RUNNING
from unit.metrics.readings import values


@pytest.mark.parametrize("leading", [True, False], ids=["leader", "standby"])
async def test_every_master_answers_for_itself(leading: bool) -> None:
    master = Master(leading=leading)
    master.metrics.process.counter(SUBMISSIONS).increment("accepted", "")
    async with master.in_process() as http:
        answer = await http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'stoker_job_submissions_total{outcome="accepted",reason=""} 1.0\n' in answer.text


@pytest.mark.parametrize(
    ("role", "status"), [(Role.READ, 200), (Role.OPERATE, 200), (Role.SUBMIT, 403), (None, 401)]
)
async def test_a_token_must_be_allowed_to_read_because_metrics_name_all_jobs(
    role: Role | None, status: int, tmp_path: Path
) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    text = text_of("one", "secret")
    tokens.add(
        Token(id="one", name="one", role=role or Role.READ, sha256=hash_of(text), created_ms=0)
    )
    headers = {"authorization": f"Bearer {text}"} if role else {}
    async with Master(tokens=tokens).in_process() as http:
        assert (await http.get("/metrics", headers=headers)).status_code == status


async def test_requests_are_counted_by_route_and_status_never_by_path() -> None:
    master = Master()
    async with master.in_process() as http:
        for job_id in (RUNNING, FINISHED):
            await http.get(f"/jobs/{job_id}")
        await http.get("/jobs/xyz")
        await http.get("/no/such/path")
        await http.request("PROPFIND", "/jobs")
    shown = values(master.metrics)
    requests = {key[1:]: value for key, value in shown.items() if key[0] == REST_REQUESTS.name}
    assert requests == {
        ("GET", "/jobs/{jobid}", "200"): 2,
        ("GET", "/jobs/{jobid}", "400"): 1,
        ("other", "other", "404"): 2,
    }
    assert (REST_DURATION.name, "GET", "/jobs/{jobid}") in shown


async def test_a_request_that_waits_is_counted_and_has_no_duration() -> None:
    master = Master()
    async with master.in_process() as http:
        await http.get(f"/jobs/{FINISHED}/status?wait=1")
    names = {key[0] for key in values(master.metrics)}
    assert REST_REQUESTS.name in names
    assert REST_DURATION.name not in names


async def test_prometheus_finds_the_task_executors_that_show_metrics() -> None:
    master = Master()
    details = (await master.dispatcher.task_executors())[0]
    url = "https://worker-1:9249/metrics"
    shown = msgspec.structs.replace(details, metrics_url=url)

    async def task_executors() -> list[TaskExecutorDetails]:
        return [details, shown]

    master.dispatcher.task_executors = task_executors  # type: ignore[method-assign]
    async with master.in_process() as http:
        answer = await http.get("/metrics/targets")
    assert answer.json() == [
        {
            "targets": ["worker-1:9249"],
            "labels": {"__scheme__": "https", "resource_id": details.resource_id},
        }
    ]

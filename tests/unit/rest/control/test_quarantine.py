"""Requests about quarantined jobs (RUN-12)."""

import jsonschema

from stoker.core.states import JobStatus
from stoker.testing.rest import Master, parts
from stoker.testing.sample_jobs import BROKEN, RUNNING, START, UNKNOWN, artifact, new_graph


def master_with_a_broken_job() -> Master:
    master = Master()
    master.dispatcher.put_into_quarantine(BROKEN)
    return master


async def test_quarantined_jobs_are_listed_with_reason_and_path() -> None:
    async with master_with_a_broken_job().in_process() as http:
        answer = await http.get("/v1/quarantine")
        document = (await http.get("/openapi.json")).json()
    [shown] = answer.json()["jobs"]
    assert shown == {
        "job_id": BROKEN,
        "reason": "its graph cannot be understood",
        "since": START,
        "pointer": f"jobs/{BROKEN}/graph/1.json",
        "cancel_wanted": False,
    }
    described = document["paths"]["/quarantine"]["get"]["responses"]["200"]["content"]
    schema = {"components": document["components"], **described["application/json"]["schema"]}
    jsonschema.Draft202012Validator(schema).validate(answer.json())


async def test_requests_about_a_quarantined_job_get_409_and_a_remedy() -> None:
    async with master_with_a_broken_job().in_process() as http:
        for suffix in ("", "/details", "/status", "/execution-result", "/plan", "/exceptions"):
            answer = await http.get(f"/jobs/{BROKEN}{suffix}")
            assert answer.status_code == 409
            [message] = answer.json()["errors"]
            assert "its graph cannot be understood" in message
            assert f"stoker quarantine retry {BROKEN}" in message


async def test_a_cancellation_of_a_quarantined_job_is_acknowledged() -> None:
    master = master_with_a_broken_job()
    async with master.in_process() as http:
        assert (await http.patch(f"/jobs/{BROKEN}")).status_code == 202
        assert "its cancellation is recorded" in (await http.get(f"/jobs/{BROKEN}")).text
    assert master.dispatcher.quarantine[BROKEN].cancel_wanted


async def test_a_retry_starts_the_quarantined_job_or_says_why_not() -> None:
    master = master_with_a_broken_job()
    async with master.in_process() as http:
        refused = await http.post(f"/quarantine/{BROKEN}/retry")
        assert refused.status_code == 409
        assert "its graph cannot be understood" in refused.text
        master.dispatcher.repaired.add(BROKEN)
        accepted = await http.post(f"/quarantine/{BROKEN}/retry")
        assert (accepted.status_code, accepted.json()) == (202, {})
        assert (await http.get(f"/jobs/{BROKEN}/status")).json() == {"status": "RUNNING"}


async def test_a_dropped_quarantined_job_has_failed() -> None:
    master = master_with_a_broken_job()
    async with master.in_process() as http:
        answer = await http.delete(f"/quarantine/{BROKEN}")
        assert (answer.status_code, answer.json()) == (202, {})
        assert (await http.get("/quarantine")).json() == {"jobs": []}
    assert master.dispatcher.jobs[BROKEN].status is JobStatus.FAILED


async def test_a_job_outside_quarantine_is_404_and_an_invalid_id_is_400() -> None:
    async with Master().in_process() as http:
        for job_id, status in ((RUNNING, 404), (UNKNOWN, 404), ("xyz", 400)):
            assert (await http.post(f"/quarantine/{job_id}/retry")).status_code == status
            assert (await http.delete(f"/quarantine/{job_id}")).status_code == status


async def test_files_of_a_quarantined_job_stay_when_another_graph_with_its_id_is_refused() -> None:
    """CLEAN-03: an id that is in quarantine belongs to a job."""
    master = master_with_a_broken_job()
    content = b"wheel"
    graph = new_graph(job_id=BROKEN, vertices=(), artifacts=(artifact(content),))
    async with master.in_process() as http:
        answer = await http.post("/jobs", files=parts(graph, content))
    assert answer.status_code == 400
    assert list(master.blobs.content.values()) == [content]

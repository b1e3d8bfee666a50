"""Prefix, foreign web pages, forwarding, security headers."""

import hashlib

import httpx
import pytest

from contract.rest_cluster import NEW, RUNNING, Master, new_graph
from stoker.rest.options import RestOptions
from unit.rest.test_submission import artifact, parts

CONTENT = b"some library" * 100_000


async def test_every_answer_has_security_headers() -> None:
    async with Master().in_process() as http:
        for path in ("/jobs", "/nope", "/openapi.json"):
            headers = (await http.get(path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:8081"}, 200),
        ({"host": "evil.example:8081"}, 403),
        ({"host": "localhost:8081"}, 200),
        ({"host": "[::1]:8081"}, 200),
        ({"host": "master.internal:8081"}, 200),
    ],
)
async def test_web_pages_of_others_cannot_use_a_server_on_loopback(
    headers: dict[str, str], status: int
) -> None:
    master = Master(options=RestOptions(bind_port="0", address="master.internal"))
    async with master.in_process() as http:
        assert (await http.get("/jobs", headers=headers)).status_code == status


async def test_files_are_taken_only_where_they_belong() -> None:
    """REST-10"""
    async with Master().in_process() as http:
        answer = await http.patch(f"/jobs/{RUNNING}", files={"a": b"x"})
    assert answer.status_code == 400
    assert "takes no files" in answer.json()["errors"][0]


async def test_a_standby_without_a_known_leader_answers_503_at_once() -> None:
    """REST-02"""
    async with Master(leading=False).in_process() as http:
        answer = await http.get("/jobs")
        config = await http.get("/config")
    assert answer.status_code == 503
    assert "retry-after" in answer.headers
    assert config.status_code == 200


async def test_a_standby_answers_as_the_leader_does() -> None:
    leader = Master()
    async with leader.serving() as leader_url:
        standby = Master(leading=False, leader=leader_url)
        async with standby.serving() as url, httpx.AsyncClient(base_url=url) as http:
            jobs = await http.get("/v1/jobs/overview")
            missing = await http.get("/jobs/xyz")
            cancel = await http.request("PATCH", f"/jobs/{RUNNING}?mode=cancel", json={})
            graph = new_graph(artifacts=(artifact(CONTENT),))
            submitted = await http.post("/jobs", files=parts(graph, CONTENT))
    assert len(jobs.json()["jobs"]) == 4
    assert missing.status_code == 400
    assert cancel.status_code == 202
    assert leader.dispatcher.cancelled == [RUNNING]
    assert submitted.json()["jobId"] == NEW
    assert leader.blobs.content[NEW, hashlib.sha256(CONTENT).hexdigest()] == CONTENT
    assert standby.dispatcher.graphs == {}


async def test_a_standby_whose_leader_is_gone_answers_503() -> None:
    async with Master().serving() as url:
        pass
    standby = Master(leading=False, leader=url)
    async with standby.serving() as standby_url, httpx.AsyncClient(base_url=standby_url) as http:
        answer = await http.get("/jobs")
    assert answer.status_code == 503
    assert url in answer.json()["errors"][0]


async def test_two_standbys_that_take_each_other_for_the_leader_do_not_loop() -> None:
    one, two = Master(leading=False), Master(leading=False)
    async with one.serving() as url_one, two.serving() as url_two, httpx.AsyncClient() as http:
        one.leader, two.leader = url_two, url_one
        answer = await http.get(f"{url_one}/jobs")
    assert answer.status_code == 503

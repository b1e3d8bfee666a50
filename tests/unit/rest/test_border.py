"""Prefix, foreign web pages, forwarding, security headers."""

import asyncio
import hashlib
import socket
from collections.abc import AsyncIterator

import httpx
import pytest

from contract.rest_cluster import NEW, RUNNING, Master, new_graph
from stoker.core.states import JobStatus
from stoker.rest import leader_pulse
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


@pytest.fixture
def quick_pulse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_pulse, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(leader_pulse, "ASK_SECONDS", 0.05)
    monkeypatch.setattr(leader_pulse, "ANSWER_SECONDS", 0.3)


@pytest.mark.usefixtures("quick_pulse")
@pytest.mark.parametrize("upload", [False, True])
async def test_a_standby_whose_leader_is_frozen_answers_503_soon(upload: bool) -> None:
    """REST-02: the kernel goes on to take requests for a process that is stopped."""
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        leader = f"http://127.0.0.1:{frozen.getsockname()[1]}"
        standby = Master(leading=False, leader=leader)
        async with (
            asyncio.timeout(60),
            standby.serving() as url,
            httpx.AsyncClient(base_url=url, timeout=50) as http,
        ):
            if upload:
                graph = new_graph(artifacts=(artifact(CONTENT),))
                answer = await http.post("/jobs", files=parts(graph, CONTENT))
            else:
                answer = await http.get("/jobs")
    assert answer.status_code == 503
    assert "has been silent" in answer.json()["errors"][0]
    assert "retry-after" in answer.headers


async def test_a_standby_waits_no_longer_for_a_leader_whose_session_is_gone() -> None:
    """REST-02"""
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        standby = Master(leading=False, leader=f"http://127.0.0.1:{frozen.getsockname()[1]}")
        async with (
            asyncio.timeout(60),
            standby.serving() as url,
            httpx.AsyncClient(base_url=url, timeout=50) as http,
        ):
            asking = asyncio.create_task(http.get("/jobs"))
            connection, _ = await asyncio.to_thread(frozen.accept)
            with connection:
                standby.leader = None
                answer = await asking
    assert answer.status_code == 503
    assert "does not lead any more" in answer.json()["errors"][0]


@pytest.mark.usefixtures("quick_pulse")
async def test_a_slow_leader_is_waited_for_as_long_as_it_lives() -> None:
    leader = Master()
    async with leader.serving() as leader_url:
        standby = Master(leading=False, leader=leader_url)
        async with standby.serving() as url, httpx.AsyncClient(base_url=url, timeout=50) as http:
            slow = http.post("/jobs", content=_slowly(), headers={"content-type": "text/plain"})
            poll = http.get(f"/jobs/{RUNNING}/status?wait=1.2&known=RUNNING")
            polled, uploaded = await asyncio.gather(poll, slow)
    assert polled.json()["status"] == JobStatus.RUNNING
    assert uploaded.status_code == 400


async def _slowly() -> AsyncIterator[bytes]:
    """Longer than a leader may be silent."""
    for _ in range(8):
        await asyncio.sleep(0.1)
        yield b"x"

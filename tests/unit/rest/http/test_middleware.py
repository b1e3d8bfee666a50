"""Prefix, foreign web pages, forwarding, security headers."""

import asyncio
import hashlib
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import httpx
import pytest

from stoker.core.options import ByteSize
from stoker.core.states import JobStatus
from stoker.gateways.resourcemanager import TaskExecutorDetails
from stoker.rest.http import forwarding
from stoker.rest.http.access import RateLimit
from stoker.rest.jobs import log_handlers
from stoker.rest.options import RestOptions
from stoker.security.tokens import Role, Token, TokenFile, hash_of, text_of
from stoker.testing.rest import DispatcherInMemory, Master
from stoker.testing.sample_jobs import EXECUTOR, FINISHED, NEW, RUNNING, new_graph
from unit.rest.jobs.test_logs import GrowingLog
from unit.rest.requests.test_submission import artifact, parts

CONTENT = b"some library" * 100_000


EVERY_ANSWER = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'",
    "cache-control": "no-store",
    "stoker-server": "0.1.0 api/1",
}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/jobs", 200),
        ("GET", "/docs", 200),
        ("GET", "/docs.js", 200),
        ("GET", "/icon.svg", 200),
        ("GET", "/openapi.json", 200),
        ("GET", "/jobmanager/log", 200),
        ("GET", f"/events?topics=job:{FINISHED}", 200),
        ("PATCH", f"/jobs/{RUNNING}", 202),
        ("PATCH", f"/jobs/{RUNNING}?mode=stop", 308),
        ("GET", "/jobs/xyz", 400),
        ("GET", "/nope", 404),
        ("DELETE", "/jobs", 404),
        ("PATCH", f"/jobs/{FINISHED}", 409),
    ],
)
async def test_every_answer_has_security_headers(method: str, path: str, status: int) -> None:
    """This includes pages, streams of events and logs, and errors."""
    async with Master().in_process() as http:
        answer = await http.request(method, path)
    assert answer.status_code == status
    assert {name: answer.headers.get(name) for name in EVERY_ANSWER} == EVERY_ANSWER
    assert "access-control-allow-origin" not in answer.headers


async def test_answers_of_the_middleware_have_security_headers_too(guarded: Master) -> None:
    """The answers are refusals, a preflight, an unexpected error and the answer of a standby."""
    broken = Master()
    broken.dispatcher.refusal = RuntimeError("unexpected")
    limited = Master(options=RestOptions(bind_port="0", max_content_length=ByteSize(10)))
    asked = [
        (guarded, "GET", "/jobs", {}, 401),
        (guarded, "DELETE", "/cluster", BEARER, 403),
        (Master(), "GET", "/jobs", {"origin": "http://evil.example"}, 403),
        (Master(options=guarded.options), "OPTIONS", "/jobs", {"origin": PAGE}, 204),
        (Master(leading=False), "GET", "/jobs", {}, 503),
        (broken, "GET", "/overview", {}, 500),
        (Master(), "GET", "/jobs", {"stoker-client": "0.0.1 api/0"}, 400),
        (limited, "POST", "/jobs", {"content-type": "multipart/form-data; boundary=x"}, 413),
    ]
    for master, method, path, headers, status in asked:
        async with master.in_process() as http:
            answer = await http.request(
                method, path, headers=headers, content=b"x" * 20 if status == 413 else b""
            )
        assert answer.status_code == status, (method, path, answer.text)
        assert {name: answer.headers.get(name) for name in EVERY_ANSWER} == EVERY_ANSWER


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
async def test_foreign_web_pages_cannot_use_a_server_on_loopback(
    headers: dict[str, str], status: int
) -> None:
    master = Master(options=RestOptions(bind_port="0", address="master.internal"))
    async with master.in_process() as http:
        assert (await http.get("/jobs", headers=headers)).status_code == status


PAGE = "https://page.example"
BEARER = {"authorization": f"Bearer {text_of('read', 'secret')}"}


@pytest.fixture
def guarded(tmp_path: Path) -> Master:
    """A master with a token, one allowed foreign page and a low request rate."""
    tokens = TokenFile(tmp_path / "tokens.json")
    sha256 = hash_of(text_of("read", "secret"))
    tokens.add(Token(id="read", name="read", role=Role.READ, sha256=sha256, created_ms=0))
    options = RestOptions(bind_port="0", allow_origin=PAGE, max_requests_per_second=3)
    return Master(options=options, tokens=tokens)


@pytest.mark.parametrize(
    ("allowed", "status", "answered"),
    [("", 403, None), ("*", 200, "*"), (f"https://x.example,{PAGE}", 200, PAGE)],
)
async def test_pages_of_another_origin_are_served_only_if_configured(
    allowed: str, status: int, answered: str | None
) -> None:
    master = Master(options=RestOptions(bind_port="0", allow_origin=allowed))
    async with master.in_process() as http:
        answer = await http.get("/overview", headers={"origin": PAGE})
        asked = await http.options(
            "/jobs", headers={"origin": PAGE, "access-control-request-method": "POST"}
        )
    assert answer.status_code == status
    assert answer.headers.get("access-control-allow-origin") == answered
    assert asked.status_code == (204 if answered else 403)


async def test_an_answer_to_a_page_with_a_token_is_compressed(guarded: Master) -> None:
    headers = BEARER | {"origin": PAGE, "accept-encoding": "gzip"}
    async with guarded.in_process() as http:
        answer = await http.get("/jobs/overview", headers=headers)
        plain = await http.get("/jobs/overview", headers=headers | {"accept-encoding": "identity"})
    assert answer.status_code == 200
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert set(answer.headers.get_list("vary")) == {"origin", "accept-encoding"}
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "content-encoding" not in plain.headers
    assert answer.json() == plain.json()


async def test_a_page_can_read_why_its_request_is_refused(guarded: Master) -> None:
    """Without the headers a browser would tell the page only that the request failed."""
    headers = {"origin": PAGE, "accept-encoding": "gzip"}
    async with guarded.in_process() as http:
        unknown = await http.get("/jobs", headers=headers)
        forbidden = await http.delete("/cluster", headers=headers | BEARER)
    assert unknown.status_code == 401
    assert unknown.headers["www-authenticate"] == "Bearer"
    assert forbidden.status_code == 403
    for answer in (unknown, forbidden):
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert answer.headers["x-frame-options"] == "DENY"
        assert list(answer.json()) == ["errors"]
    assert guarded.dispatcher.shut_down_as == []


async def test_a_preflight_request_needs_no_token(guarded: Master) -> None:
    asked = {"access-control-request-headers": "authorization"}
    async with guarded.in_process() as http:
        ours = await http.options("/jobs", headers=asked | {"origin": PAGE})
        foreign = await http.options("/jobs", headers=asked | {"origin": "https://evil.example"})
    assert ours.status_code == 204
    assert ours.headers["access-control-allow-headers"] == "authorization"
    assert ours.headers["access-control-allow-origin"] == PAGE
    assert foreign.status_code == 403
    assert "access-control-allow-origin" not in foreign.headers


async def test_a_foreign_page_is_refused_even_with_a_token(guarded: Master) -> None:
    async with guarded.in_process() as http:
        answer = await http.get("/jobs", headers=BEARER | {"origin": "https://evil.example"})
    assert answer.status_code == 403


async def test_a_caller_above_the_rate_gets_429_with_retry_after(
    guarded: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: 1000.0)
    async with guarded.in_process() as http:
        answers = [await http.get("/jobs", headers=BEARER | {"origin": PAGE}) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[-1].headers["retry-after"] == "1"
    assert answers[-1].headers["access-control-allow-origin"] == PAGE


async def test_requests_are_counted_for_each_token(
    guarded: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that uses up its requests takes none from others behind the same address."""
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: 1000.0)
    assert guarded.tokens is not None
    sha256 = hash_of(text_of("other", "secret"))
    other = Token(id="other", name="other", role=Role.READ, sha256=sha256, created_ms=0)
    guarded.tokens.add(other)
    async with guarded.in_process() as http:
        for _ in range(4):
            last = await http.get("/jobs", headers=BEARER)
        assert last.status_code == 429
        unknown = [(await http.get("/jobs")).status_code for _ in range(4)]
        assert unknown == [401, 401, 401, 429]
        bearer = {"authorization": f"Bearer {text_of('other', 'secret')}"}
        assert (await http.get("/jobs", headers=bearer)).status_code == 200


@pytest.mark.parametrize(
    ("proof", "statuses"),
    [(None, [200, 429, 429]), ("guessed", [200, 429, 429]), ("proof", [200, 200, 200])],
)
async def test_only_a_master_names_the_address_whose_requests_are_counted(
    monkeypatch: pytest.MonkeyPatch, proof: str | None, statuses: list[int]
) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: 1000.0)
    master = Master(options=RestOptions(bind_port="0", max_requests_per_second=1), proof="proof")
    sent = {} if proof is None else {"x-stoker-forwarding-proof": proof}
    async with master.in_process() as http:
        answers = [
            await http.get("/overview", headers=sent | {"x-stoker-forwarded": f"10.0.0.{n}"})
            for n in range(3)
        ]
    assert [answer.status_code for answer in answers] == statuses


async def test_the_requests_of_each_client_of_a_standby_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: list[str] = []

    def count(_self: RateLimit, caller: str, _now: float) -> None:
        counted.append(caller)

    monkeypatch.setattr(RateLimit, "refusal", count)
    async with Master(proof="proof").serving() as leader:
        standby = Master(leading=False, leader=leader, proof="proof")
        async with standby.serving() as url, httpx.AsyncClient() as http:
            forged = {"x-stoker-forwarding-proof": "forged"}
            assert (await http.get(f"{url}/overview", headers=forged)).status_code == 200
    assert counted == ["127.0.0.1", "127.0.0.1 through 127.0.0.1"]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/savepoints/show?path=ftp://127.0.0.1/x"),
        ("GET", f"/jobs/{RUNNING}/yarn-cancel"),
        ("GET", "/jobs"),
        ("POST", "/jobs"),
    ],
)
async def test_a_page_of_another_site_cannot_make_a_browser_send_requests(
    method: str, path: str, site: str
) -> None:
    """An image or a form of such a page has no Origin, but Sec-Fetch-Site."""
    master = Master()
    async with master.in_process() as http:
        refused = await http.request(method, path, headers={"sec-fetch-site": site})
        assert refused.status_code == 403
        page = await http.get("/docs", headers={"sec-fetch-site": site})
        assert page.status_code == 200, "a link may lead to the description of the API"
    assert master.dispatcher.cancelled == []


async def test_a_standby_forwards_the_requests_of_its_own_page() -> None:
    async with Master().serving() as leader:
        standby = Master(leading=False, leader=leader)
        async with standby.serving() as url, httpx.AsyncClient() as http:
            own = {"origin": url, "sec-fetch-site": "same-origin"}
            assert (await http.get(f"{url}/jobs", headers=own)).status_code == 200


async def test_an_upload_whose_media_type_has_capital_letters_is_an_upload() -> None:
    master = Master(options=RestOptions(bind_port="0", max_concurrent_uploads=0))
    async with master.in_process() as http:
        kind = {"content-type": "Multipart/Form-Data; boundary=x"}
        answer = await http.post("/jobs", content=b"--x--", headers=kind)
    assert answer.status_code == 429


@pytest.mark.parametrize("path", ["/events", "/v1/events/", "/events?topics=log"])
async def test_streams_beyond_the_limit_are_refused(path: str) -> None:
    master = Master(options=RestOptions(bind_port="0", max_event_streams=0))
    async with master.in_process() as http:
        answer = await http.get(path)
    assert answer.status_code == 429
    assert "0 streams of events and logs are in progress" in answer.json()["errors"][0]


async def test_streams_of_one_token_leave_room_for_those_of_another(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    headers = {}
    for name in ("ana", "bob"):
        text = text_of(name, "secret")
        made = Token(id=name, name=name, role=Role.OPERATE, sha256=hash_of(text), created_ms=0)
        tokens.add(made)
        headers[name] = {"authorization": f"Bearer {text}"}
    options = RestOptions(bind_port="0", max_event_streams_per_caller=1)
    async with Master(tokens=tokens, options=options).serving() as url, httpx.AsyncClient() as http:

        def stream(name: str, path: str) -> AbstractAsyncContextManager[httpx.Response]:
            return http.stream("GET", f"{url}{path}", headers=headers[name])

        async with stream("ana", "/events") as first:
            assert first.status_code == 200
            # A spelling, or the events of a job, is a stream like any other.
            for path in ("/v1/events/", f"/jobs/{RUNNING}/events"):
                async with stream("ana", path) as second:
                    assert second.status_code == 429
                    assert "to the token ana are in progress" in (await second.aread()).decode()
            async with stream("bob", "/events") as other:
                assert other.status_code == 200


async def test_a_path_writes_no_lines_of_its_own_into_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(DispatcherInMemory):
        async def task_executors(self) -> list[TaskExecutorDetails]:
            raise RuntimeError("unexpected")

    async with Master(dispatcher=Broken()).in_process() as http:
        answer = await http.get("/taskmanagers/x%0AERROR%20forged")
        assert answer.status_code == 500
    (record,) = [each for each in caplog.records if each.name == "stoker.rest.http.errors"]
    assert "\n" not in record.getMessage()


async def test_an_upload_beyond_the_limit_is_refused_before_it_is_read() -> None:
    master = Master(options=RestOptions(bind_port="0", max_concurrent_uploads=0))
    async with master.in_process() as http:
        answer = await http.post("/jobs", files=parts(new_graph()))
    assert answer.status_code == 429
    assert "retry-after" in answer.headers
    assert master.dispatcher.graphs == {}


async def test_files_are_accepted_only_by_upload_paths() -> None:
    """A cancellation with a file is refused (REST-10)."""
    async with Master().in_process() as http:
        answer = await http.patch(f"/jobs/{RUNNING}", files={"a": b"x"})
    assert answer.status_code == 400
    assert "accepts no files" in answer.json()["errors"][0]


async def test_a_standby_without_a_known_leader_answers_503_at_once() -> None:
    """It still answers what every master knows itself (REST-02)."""
    async with Master(leading=False).in_process() as http:
        answer = await http.get("/jobs")
        config = await http.get("/config")
    assert answer.status_code == 503
    assert "retry-after" in answer.headers
    assert config.status_code == 200


async def test_a_standby_gives_the_same_answers_as_the_leader() -> None:
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


async def test_two_standbys_that_forward_to_each_other_do_not_loop() -> None:
    one, two = Master(leading=False), Master(leading=False)
    async with one.serving() as url_one, two.serving() as url_two, httpx.AsyncClient() as http:
        one.leader, two.leader = url_two, url_one
        answer = await http.get(f"{url_one}/jobs")
    assert answer.status_code == 503


@pytest.fixture
def fast_leader_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "CHECK_LEADER_SECONDS", 0.02)
    monkeypatch.setattr(forwarding, "PING_INTERVAL_SECONDS", 0.05)
    monkeypatch.setattr(forwarding, "PING_TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(forwarding, "QUIET_SECONDS", 0.05)


@pytest.mark.usefixtures("fast_leader_checks")
@pytest.mark.parametrize("upload", [False, True])
async def test_a_standby_whose_leader_is_frozen_answers_503_soon(upload: bool) -> None:
    """REST-02: the kernel keeps accepting requests for a stopped process."""
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


async def test_a_standby_stops_waiting_for_a_leader_that_lost_its_session() -> None:
    """The client learns that this master no longer leads and tries again (REST-02)."""
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
    assert "no longer leads" in answer.json()["errors"][0]


@pytest.mark.usefixtures("fast_leader_checks")
async def test_a_standby_waits_for_a_slow_leader_as_long_as_it_is_alive() -> None:
    leader = Master()
    async with leader.serving() as leader_url:
        standby = Master(leading=False, leader=leader_url)
        async with standby.serving() as url, httpx.AsyncClient(base_url=url, timeout=50) as http:
            slow = http.post("/jobs", content=_slow_body(), headers={"content-type": "text/plain"})
            poll = http.get(f"/jobs/{RUNNING}/status?wait=1.2&known=RUNNING")
            polled, uploaded = await asyncio.gather(poll, slow)
    assert polled.json()["status"] == JobStatus.RUNNING
    assert uploaded.status_code == 400


@pytest.mark.usefixtures("fast_leader_checks")
async def test_a_followed_log_may_be_quiet_for_long_behind_a_standby(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_handlers, "POLL_SECONDS", 0.3)
    leader = Master(dispatcher=GrowingLog(b"begun\n", b"end\n"))
    async with leader.serving() as leader_url:
        standby = Master(leading=False, leader=leader_url)
        async with standby.serving() as url, httpx.AsyncClient(base_url=url, timeout=50) as http:
            answer = await http.get(f"/jobs/{RUNNING}/attempts/one/stdout?follow=true")
    assert (answer.status_code, answer.text) == (200, "begun\nend\n")


@pytest.mark.usefixtures("fast_leader_checks")
async def test_a_standby_ends_the_response_of_a_leader_that_froze_while_it_sent() -> None:
    async def freeze(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the first request in part, and no other one."""
        if b"GET /jobs " in await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nbegun")
        await reader.read()
        writer.close()

    async with (
        asyncio.timeout(60),
        await asyncio.start_server(freeze, "127.0.0.1", 0) as frozen,
        Master(
            leading=False, leader=f"http://127.0.0.1:{frozen.sockets[0].getsockname()[1]}"
        ).serving() as url,
        httpx.AsyncClient(base_url=url, timeout=50) as http,
    ):
        with pytest.raises(httpx.RemoteProtocolError, match="complete message body"):
            await http.get("/jobs")


async def _slow_body() -> AsyncIterator[bytes]:
    """A body that takes longer to send than a leader may be silent."""
    for _ in range(8):
        await asyncio.sleep(0.1)
        yield b"x"


async def test_the_api_page_loads_nothing_from_other_machines() -> None:
    async with Master(leading=False).in_process() as http:
        answers = [await http.get(path) for path in ("/docs", "/v1/docs", "/docs.js", "/docs.css")]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert not any("http://" in answer.text or "https://" in answer.text for answer in answers)


async def test_the_api_description_needs_no_token_and_the_cluster_does(
    guarded: Master,
) -> None:
    async with Master(tokens=guarded.tokens).in_process() as http:
        pages = ("/", "/docs", "/docs.js", "/v1/docs.css", "/icon.svg", "/openapi.json")
        described = [await http.get(path) for path in pages]
        others = [(await http.get(path)).status_code for path in ("/config", "/overview", "/docsx")]
    assert [answer.status_code for answer in described] == [200] * len(pages)
    for fact in (RUNNING, EXECUTOR, "some.password", "orders-per-hour"):
        assert not any(fact in answer.text for answer in described), (
            "the description reveals nothing about the cluster"
        )
    assert others == [401] * 3

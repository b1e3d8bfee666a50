"""Short ways past the framework: the same answers as the long ones give."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import msgspec
import pytest
from litestar.types import Message, Receive, Scope, Send

from stoker.core.errors import CallTimedOut, NoLeader, RemoteError
from stoker.core.graph import JobType
from stoker.core.ids import JobId, SessionId
from stoker.core.results import JobSummary
from stoker.core.states import JobStatus
from stoker.gateways.dispatcher import DispatcherGateway, JobsSince
from stoker.rest.app import build_app, routes
from stoker.rest.http.middleware import Border
from stoker.rest.job_list.fast_paths import ShortWays
from stoker.rest.options import RestOptions
from stoker.rest.server import serving
from stoker.rest.services import SERVICES, RestServices
from stoker.testing.rest import FINISHED, NEW, RUNNING, UNKNOWN, Master, artifact, new_graph

BASE = "http://127.0.0.1:8081"
PLAIN = [
    "/jobs",
    "/jobs/overview",
    "/v1/jobs/overview",
    "/jobs/overview?limit=2&offset=1",
    "/jobs/overview?state=RUNNING,FINISHED&sort=-last-modification",
    "/jobs/overview?type=batch&name=orders&sort=name",
    "/jobs/overview?limit=0",
    f"/jobs/{RUNNING}/status",
    f"/jobs/{UNKNOWN}/status",
    f"/jobs/{RUNNING}/status?wait=0.05&known=RUNNING",
    f"/jobs/{RUNNING}/status?wait=3&known=CREATED%2CFAILING",
    f"/jobs/{UNKNOWN}/status?wait=3&known=RUNNING",
]
OTHERS = [
    "/jobs/",
    "/jobs/overview/",
    "/jobs?x=1",
    "/jobs/overview?",
    "/jobs/overview?state=RUNNING%2CFINISHED",
    "/jobs/overview?name=per%20hour",
    "/jobs/overview?name=",
    "/jobs/overview?state=DONE",
    "/jobs/overview?sort=size",
    "/jobs/overview?limit=10001",
    "/jobs/overview?limit=-1",
    "/jobs/overview?limit=1e3",
    "/jobs/overview?limit=1_0",
    "/jobs/overview?limit=007",
    "/jobs/overview?offset=99999999999999999999",
    "/jobs/overview?limit=1&limit=2",
    "/jobs/overview?unknown=1",
    f"/jobs/overview?name={'o' * 300}",
    f"/jobs/{'A' * 32}/status",
    "/jobs/1234/status",
    f"/jobs/{RUNNING}/status?wait=1",
    f"/jobs/{RUNNING}/status?known=RUNNING",
    f"/jobs/{RUNNING}/status?wait=-1&known=RUNNING",
    f"/jobs/{RUNNING}/status?wait=0&known=DONE",
    f"/jobs/{RUNNING}/status?wait=0&known=RUNNING,CREATED",
    f"/jobs/{RUNNING}/status?wait=0&known=RUNNING%2C",
    f"/jobs/{RUNNING}/status?known=RUNNING&wait=0",
]


def asking(app: Border) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url=BASE)


def said(answer: httpx.Response) -> tuple[int, list[tuple[str, str]], str]:
    """An error that nobody foresaw has an id of its own."""
    text = re.sub(r"internal error [0-9a-f]{12}", "internal error ID", answer.text)
    return answer.status_code, sorted(answer.headers.multi_items()), text


async def both(
    ask: Callable[[httpx.AsyncClient], Any], new_master: Callable[[], Master] = Master
) -> list[tuple[int, list[tuple[str, str]], str]]:
    answers = []
    for build in (build_app, lambda services: Border(routes(), services)):
        async with asking(build(new_master().services)) as http:
            answers.append(said(await ask(http)))
    return answers


@pytest.mark.parametrize("path", [*PLAIN, *OTHERS])
@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
async def test_a_request_is_answered_as_by_the_long_way(path: str, method: str) -> None:
    short, long = await both(lambda http: http.request(method, path))
    assert short == long


@pytest.mark.parametrize(
    "headers",
    [
        {"accept-encoding": "identity"},
        {"origin": "http://pages.example"},
        {"origin": "http://other.example"},
        {"accept": "text/html"},
        {"x-stoker-client": "0.0.1 api/0"},
    ],
)
async def test_headers_have_the_same_effect_on_the_short_way(headers: dict[str, str]) -> None:
    def master() -> Master:
        return Master(options=RestOptions(bind_port="0", allow_origin="http://pages.example"))

    short, long = await both(lambda http: http.get("/jobs/overview", headers=headers), master)
    assert short == long


@pytest.mark.parametrize(
    "refusal",
    [NoLeader("nobody leads"), CallTimedOut("late"), RemoteError("broken"), ValueError("x")],
)
@pytest.mark.parametrize(
    "path",
    [
        "/jobs",
        "/jobs/overview",
        f"/jobs/{RUNNING}/status",
        f"/jobs/{RUNNING}/status?wait=0.05&known=RUNNING",
    ],
)
async def test_errors_are_told_as_by_the_long_way(path: str, refusal: Exception) -> None:
    def master() -> Master:
        refusing = Master()
        refusing.dispatcher.refusal = refusal
        return refusing

    short, long = await both(lambda http: http.get(path), master)
    assert short == long
    assert short[0] >= 400


@pytest.mark.parametrize(
    "content",
    [
        msgspec.json.encode(new_graph()),
        msgspec.json.encode(new_graph(job_id=FINISHED)),
        msgspec.json.encode(new_graph(job_id="x")),
        msgspec.json.encode(new_graph(artifacts=(artifact(b"absent"),))),
        b"{}",
        b"\xff",
    ],
)
async def test_a_job_is_accepted_or_refused_as_by_the_long_way(content: bytes) -> None:
    files = {"graph": (None, content, "application/json")}
    headers = {"content-type": "multipart/form-data; boundary=here"}
    short, long = await both(lambda http: http.post("/jobs", files=files, headers=headers))
    assert short == long


async def test_a_body_that_is_no_form_is_refused_as_by_the_long_way() -> None:
    for content, kind in ((b"{}", "application/json"), (b"", ""), (b"x", "multipart/form-data")):
        headers = {"content-type": kind}
        short, long = await both(
            lambda http, c=content, h=headers: http.post("/jobs", content=c, headers=h)
        )
        assert short == long
        assert short[0] == 400


async def call(app: ShortWays, path: str, services: RestServices) -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("a body is not wanted")

    path, _, query = path.partition("?")
    scope: Any = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": query.encode(),
        "headers": [],
        SERVICES: services,
    }
    await app(scope, receive, send)
    return sent


async def never(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise AssertionError("this went the long way")


@pytest.mark.parametrize("path", [each for each in PLAIN if not each.startswith("/v1")])
async def test_a_plain_request_does_not_go_the_long_way(path: str) -> None:
    start, body = await call(ShortWays(never), path, Master().services)
    assert start["type"] == "http.response.start"
    assert body["type"] == "http.response.body"


class ManyJobs(DispatcherGateway):
    async def jobs_since(
        self, leader: SessionId | None, revision: int, live_revision: int = -1
    ) -> JobsSince:
        known = leader is not None
        return JobsSince(
            leader=SessionId("a"), revision=0, ended=() if known else MANY, whole=not known
        )


MANY = tuple(
    JobSummary(
        job_id=JobId(f"{number:032x}"),
        name="orders per hour",
        job_type=JobType.BATCH,
        status=JobStatus.FINISHED,
        start=number,
        end=number + 10,
    )
    for number in range(5000)
)


async def test_a_long_list_goes_in_pieces_that_answers_share() -> None:
    async def find() -> DispatcherGateway:
        return ManyJobs()

    services = replace(Master().services, dispatcher=find)
    first, second = [await call(ShortWays(never), "/jobs/overview", services) for _ in range(2)]
    bodies = [message["body"] for message in first[1:]]
    assert [message["more_body"] for message in first[1:]] == [True] * (len(bodies) - 1) + [False]
    length = dict(first[0]["headers"])[b"content-length"]
    assert int(length) == sum(map(len, bodies))
    assert len(msgspec.json.decode(b"".join(bodies))["jobs"]) == len(MANY)
    again = [message["body"] for message in second[1:]]
    assert sum(one is other for one, other in zip(bodies, again, strict=True)) >= len(bodies) - 2


async def test_a_long_list_is_whole_over_a_real_connection() -> None:
    async def find() -> DispatcherGateway:
        return ManyJobs()

    master = Master()
    services = replace(master.services, dispatcher=find)
    async with serving(build_app(services), master.options) as url, httpx.AsyncClient() as http:
        plain = await http.get(f"{url}/jobs/overview", headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert len(plain.json()["jobs"]) == len(MANY)
        # A longer body than http/compression.py compresses: pages are for it.
        answer = await http.get(f"{url}/jobs/overview")
        assert "content-encoding" not in answer.headers
        assert answer.content == plain.content


async def test_a_job_that_was_accepted_is_among_the_ids_that_are_asked_for_next() -> None:
    async with Master().in_process() as http:
        await http.get("/jobs")
        files = {"graph": (None, msgspec.json.encode(new_graph()), "application/json")}
        assert (await http.post("/jobs", files=files)).status_code == 202
        ids = {job["id"] for job in (await http.get("/jobs")).json()["jobs"]}
    assert NEW in ids

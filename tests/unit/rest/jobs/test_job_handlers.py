"""Sending the list of jobs."""

from dataclasses import replace
from typing import Any

import httpx
import msgspec

from stoker.core.graph import JobType
from stoker.core.ids import JobId, SessionId
from stoker.core.results import JobSummary
from stoker.core.states import JobStatus
from stoker.gateways.dispatcher import DispatcherGateway, JobsSince
from stoker.rest.app import build_app, router
from stoker.rest.http.access import ANYONE
from stoker.rest.http.asgi import CALLER, Message
from stoker.rest.server import serving
from stoker.rest.services import RestServices
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import NEW, new_graph


async def call(path: str, services: RestServices) -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("a body is not wanted")

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [],
        CALLER: ANYONE,
    }
    await router().respond(router().find("GET", path), services, scope, receive, send)
    return sent


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


async def test_a_long_job_list_is_sent_in_pieces_that_answers_share() -> None:
    async def find() -> DispatcherGateway:
        return ManyJobs()

    services = replace(Master().services, dispatcher=find)
    first, second = [await call("/jobs/overview", services) for _ in range(2)]
    bodies = [message["body"] for message in first[1:]]
    assert [message["more_body"] for message in first[1:]] == [True] * (len(bodies) - 1) + [False]
    length = dict(first[0]["headers"])[b"content-length"]
    assert int(length) == sum(map(len, bodies))
    assert len(msgspec.json.decode(b"".join(bodies))["jobs"]) == len(MANY)
    again = [message["body"] for message in second[1:]]
    assert sum(one is other for one, other in zip(bodies, again, strict=True)) >= len(bodies) - 2


async def test_a_long_job_list_arrives_complete_over_a_real_connection() -> None:
    async def find() -> DispatcherGateway:
        return ManyJobs()

    master = Master()
    services = replace(master.services, dispatcher=find)
    async with serving(build_app(services), master.options) as url, httpx.AsyncClient() as http:
        plain = await http.get(f"{url}/jobs/overview", headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert len(plain.json()["jobs"]) == len(MANY)
        # The body is longer than http/compression.py compresses; clients ask for pages instead.
        answer = await http.get(f"{url}/jobs/overview")
        assert "content-encoding" not in answer.headers
        assert answer.content == plain.content


async def test_an_accepted_job_is_in_the_next_list_of_ids() -> None:
    async with Master().in_process() as http:
        await http.get("/jobs")
        files = {"graph": (None, msgspec.json.encode(new_graph()), "application/json")}
        assert (await http.post("/jobs", files=files)).status_code == 202
        ids = {job["id"] for job in (await http.get("/jobs")).json()["jobs"]}
    assert NEW in ids

"""A token with the role submit sees and changes the jobs of its own name only."""

from pathlib import Path

import httpx
import msgspec
import pytest

from stoker.core.ids import JobId
from stoker.core.results import JobDetails
from stoker.events.event import EventKind
from stoker.rest.app import ROUTES, build_app
from stoker.rest.http.ownership import JOB_PARAMETERS
from stoker.rest.http.routing import path_parameters
from stoker.rest.options import RestOptions
from stoker.security.tokens import Permission, Role, Token, TokenFile, allows, hash_of, text_of
from stoker.testing.rest import Master, parts
from stoker.testing.sample_jobs import FINISHED, NEW, RUNNING, new_graph
from unit.events.logged import event
from unit.rest.http.test_permissions import operations, spellings, status_of

OF_NO_JOB = {
    "/config",
    "/events",
    "/events/log",
    "/jobs",
    "/jobs/overview",
    "/jars/upload",
    "/jars/{jarid}/plan",
    "/jars/{jarid}/run",
    "/jars/{jarid}/run-application",
    "/overview",
    "/retained-checkpoints",
    "/savepoint-disposal",
    "/savepoint-disposal/{triggerid}",
    "/savepoints",
    "/savepoints/show",
}
"""Paths open to the role submit that name no job. Lists show the caller's own jobs."""


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    """Two users who submit, one who reads, and one who operates."""
    file = TokenFile(tmp_path / "tokens.json")
    roles = {"ana": Role.SUBMIT, "bob": Role.SUBMIT, "eve": Role.READ, "op": Role.OPERATE}
    for name, role in roles.items():
        sha256 = hash_of(text_of(name, "secret"))
        file.add(Token(id=name, name=name, role=role, sha256=sha256, created_ms=0))
    return file


@pytest.fixture
def master(tokens: TokenFile) -> Master:
    """Its running job is Ana's, its finished one Bob's, and the others are nobody's."""
    made = Master(tokens=tokens, options=RestOptions(bind_port="0", max_requests_per_second=0))
    for job_id, owner in ((RUNNING, "ana"), (FINISHED, "bob")):
        own(made, job_id, owner)
    return made


def own(master: Master, job_id: JobId, owner: str) -> None:
    jobs: dict[JobId, JobDetails] = master.dispatcher.jobs
    jobs[job_id] = msgspec.structs.replace(jobs[job_id], owner=owner)


def headers(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text_of(name, 'secret')}"}


async def get(master: Master, path: str, name: str) -> httpx.Response:
    async with master.in_process() as http:
        return await http.get(path, headers=headers(name))


async def test_no_spelling_of_a_path_leads_to_the_job_of_another(master: Master) -> None:
    app = build_app(master.services)
    checked = 0
    for route, method, path in operations():
        is_of_job = any(each in path_parameters(route.paths[0]) for each in JOB_PARAMETERS)
        if not is_of_job or not allows(Role.SUBMIT, route.needs):
            continue
        path = path.replace("applicationid", RUNNING)
        for spelling in spellings(path):
            status = await status_of(app, method, spelling, text_of("bob", "secret"))
            assert status == 403, (method, spelling)
            checked += 1
    assert checked > 300
    assert master.dispatcher.cancelled == []
    assert master.dispatcher.graphs == {}


def test_every_path_open_to_the_role_submit_names_a_job_or_is_known_to_name_none() -> None:
    open_paths = {
        path
        for route in ROUTES
        for path in route.paths
        if allows(Role.SUBMIT, route.needs) and route.needs is not Permission.OPEN
    }
    of_no_job = {path for path in open_paths if not set(JOB_PARAMETERS) & {*path_parameters(path)}}
    assert of_no_job == OF_NO_JOB


async def test_one_sees_and_ends_ones_own_jobs(master: Master) -> None:
    assert (await get(master, f"/jobs/{RUNNING}/details", "ana")).json()["owner"] == "ana"
    refused = await get(master, f"/jobs/{RUNNING}/details", "bob")
    assert refused.status_code == 403
    assert f"job {RUNNING} belongs to ana; the token bob has the role submit" in refused.text
    async with master.in_process() as http:
        upper = f"/jobs/{RUNNING.upper()}"
        assert (await http.patch(upper, headers=headers("bob"))).status_code == 403
        assert master.dispatcher.cancelled == []
        assert (await http.patch(f"/jobs/{RUNNING}", headers=headers("ana"))).status_code == 202
    assert master.dispatcher.cancelled == [RUNNING]


@pytest.mark.parametrize("name", ["eve", "op"])
async def test_other_roles_see_all_jobs(master: Master, name: str) -> None:
    for job_id in (RUNNING, FINISHED):
        assert (await get(master, f"/jobs/{job_id}", name)).status_code == 200
    assert len((await get(master, "/jobs", name)).json()["jobs"]) == len(master.dispatcher.jobs)


@pytest.mark.parametrize(
    "path", ["/jobs", "/jobs/overview", "/jobs/overview?owner=bob,ana", "/jobs/overview?show=owner"]
)
async def test_a_list_has_ones_own_jobs(master: Master, path: str) -> None:
    """Also when another caller has asked for the same list at the same moment."""
    everything = await get(master, path.partition("?")[0], "op")
    assert RUNNING in everything.text
    for name, own_job in (("ana", RUNNING), ("bob", FINISHED)):
        jobs = (await get(master, path, name)).json()["jobs"]
        assert [job.get("id") or job["jid"] for job in jobs] == [own_job]


async def test_a_list_has_flinks_fields_unless_the_owner_is_asked_for(master: Master) -> None:
    """Flink's clients refuse a field that they do not know."""
    for name in ("ana", "op"):
        answer = (await get(master, "/jobs/overview", name)).json()
        assert set(answer) == {"jobs"}
        assert not any("owner" in job for job in answer["jobs"])
    asked = await get(master, "/jobs/overview?show=everything", "op")
    assert asked.status_code == 400


async def test_a_list_can_be_limited_to_owners(master: Master) -> None:
    jobs = (await get(master, "/jobs/overview?owner=bob&show=owner", "op")).json()["jobs"]
    assert [(job["jid"], job["owner"]) for job in jobs] == [(FINISHED, "bob")]


async def test_a_job_of_an_unknown_owner_is_for_operators(master: Master) -> None:
    """Also one in quarantine whose record cannot be read."""
    own(master, RUNNING, "")
    assert (await get(master, f"/jobs/{RUNNING}", "ana")).status_code == 403
    master.dispatcher.put_into_quarantine(RUNNING)
    assert (await get(master, f"/jobs/{RUNNING}", "ana")).status_code == 403
    assert (await get(master, f"/jobs/{RUNNING}", "op")).status_code == 409


async def test_an_unknown_job_is_not_found(master: Master) -> None:
    assert (await get(master, f"/jobs/{'f' * 32}", "ana")).status_code == 404


@pytest.mark.parametrize(("name", "owner"), [("ana", "ana"), ("op", "op")])
async def test_a_job_belongs_to_the_token_that_submits_it(
    master: Master, name: str, owner: str
) -> None:
    async with master.in_process() as http:
        answer = await http.post("/jobs", files=parts(new_graph()), headers=headers(name))
    assert answer.status_code == 202
    assert master.dispatcher.jobs[NEW].owner == owner


async def test_without_tokens_a_job_belongs_to_the_user_who_runs_the_master() -> None:
    master = Master(local_user="stoker")
    async with master.in_process() as http:
        await http.post("/jobs", files=parts(new_graph()))
        assert (await http.get(f"/jobs/{NEW}/details")).json()["owner"] == "stoker"


async def test_a_stream_about_a_job_is_for_its_owner(master: Master) -> None:
    """The topic names the job, not the path."""
    path = f"/events?topics=job:{FINISHED}"
    refused = await get(master, path, "ana")
    assert refused.status_code == 403
    assert "belongs to another owner" in refused.json()["errors"][0]
    for name in ("bob", "eve", "op"):
        assert (await get(master, path, name)).status_code == 200


async def test_the_event_log_shows_the_events_of_one_s_own_jobs(master: Master) -> None:
    master.dispatcher.events = [
        event(1, 1, job=RUNNING, owner="ana"),
        event(1, 2, job=FINISHED, owner="bob"),
        event(1, 3, EventKind.LEADER_CHANGED, job=None),
    ]
    for name, expected in (("ana", ["1-1"]), ("bob", ["1-2"]), ("op", ["1-3", "1-2", "1-1"])):
        answer = (await get(master, "/events/log", name)).json()
        assert [each["id"] for each in answer["events"]] == expected
    assert (await get(master, "/events/log?owner=ana", "ana")).status_code == 200
    assert (await get(master, "/events/log?owner=bob", "ana")).status_code == 403

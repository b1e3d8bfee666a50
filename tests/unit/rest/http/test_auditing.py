"""Which requests leave a line in the audit log."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from stoker.core.errors import StorageUnavailable
from stoker.core.ids import JobId
from stoker.core.options import ByteSize
from stoker.rest.app import ROUTES
from stoker.rest.http.auditing import is_change
from stoker.rest.http.routing import Router
from stoker.rest.options import RestOptions
from stoker.security.audit import AuditLog, AuditQuery
from stoker.security.audit_entries import AuditEntry
from stoker.security.options import AuditOptions
from stoker.security.tokens import Role, Token, TokenFile, hash_of, text_of
from stoker.testing.rest import DispatcherInMemory, Master, parts
from stoker.testing.sample_jobs import FINISHED, NEW, RUNNING, new_graph
from unit.rest.http.test_permissions import CHANGES, operations


@pytest.fixture
def master(tmp_path: Path) -> Master:
    file = TokenFile(tmp_path / "tokens.json")
    for name, role in (("op", Role.OPERATE), ("eve", Role.READ)):
        sha256 = hash_of(text_of(name, "secret"))
        file.add(Token(id=name, name=name, role=role, sha256=sha256, created_ms=0))
    return Master(tokens=file, audit=AuditLog(tmp_path / "audit", AuditOptions()))


async def request(
    master: Master, method: str, path: str, name: str | None = "op", **more: object
) -> httpx.Response:
    token = {} if name is None else {"authorization": f"Bearer {text_of(name, 'secret')}"}
    async with master.in_process() as http:
        return await http.request(method, path, headers=token, **more)  # type: ignore[arg-type]


async def entries(master: Master) -> list[AuditEntry]:
    assert master.audit is not None
    return await master.audit.read(AuditQuery())


async def test_a_change_is_recorded_with_its_caller_and_object(master: Master) -> None:
    assert (await request(master, "PATCH", f"/jobs/{RUNNING}")).status_code == 202
    [entry] = await entries(master)
    assert (entry.caller, entry.role, entry.address) == ("op", "operate", "127.0.0.1")
    assert (entry.action, entry.object) == ("PATCH /jobs/{jobid}", RUNNING)
    assert (entry.outcome, entry.status, entry.reason) == ("done", 202, "")
    assert entry.time.startswith("2026-")


async def test_a_submission_is_recorded_with_the_id_of_its_job(master: Master) -> None:
    await request(master, "POST", "/jobs", files=parts(new_graph()))
    [entry] = await entries(master)
    assert (entry.action, entry.object, entry.outcome) == ("POST /jobs", NEW, "done")


@pytest.mark.parametrize(
    ("method", "path", "name", "status", "reason"),
    [
        ("PATCH", f"/jobs/{RUNNING}", "eve", 403, "the token eve has the role read"),
        ("GET", f"/jobs/{RUNNING}", None, 401, "this cluster requires a token"),
        ("GET", "/jobs", "mallory", 401, "the token does not belong to this cluster"),
        ("DELETE", "/cluster", "eve", 403, "the token eve has the role read"),
    ],
)
async def test_a_refusal_of_access_is_recorded_also_of_a_query(
    master: Master, method: str, path: str, name: str | None, status: int, reason: str
) -> None:
    await request(master, method, path, name)
    [entry] = await entries(master)
    assert (entry.outcome, entry.status) == ("refused", status)
    assert reason in entry.reason
    assert entry.caller == ("eve" if name == "eve" else "")


async def test_too_many_requests_are_recorded(master: Master) -> None:
    master.options = RestOptions(bind_port="0", max_requests_per_second=1)
    async with master.in_process() as http:
        for _ in range(2):
            await http.get("/overview")
    assert [entry.status for entry in await entries(master)] == [429, 401]


async def test_a_change_that_is_refused_or_fails_is_recorded_with_the_reason(
    master: Master,
) -> None:
    await request(master, "PATCH", f"/jobs/{FINISHED}")
    master.dispatcher.refusal = StorageUnavailable("the disk is full")
    await request(master, "POST", "/jobs", files=parts(new_graph()))
    failed, refused = await entries(master)
    assert (refused.outcome, refused.status) == ("refused", 409)
    assert "cannot be cancelled" in refused.reason
    assert (failed.outcome, failed.status, failed.reason) == ("failed", 503, "the disk is full")


async def test_queries_and_heartbeats_leave_no_line(master: Master) -> None:
    for path in ("/jobs", f"/jobs/{RUNNING}", "/overview", "/audit", "/openapi.json", "/nothing"):
        await request(master, "GET", path)
    await request(master, "PATCH", f"/jobs/{RUNNING}/clientHeartbeat?seconds=5")
    assert await entries(master) == []


def test_every_route_that_changes_something_is_recorded() -> None:
    router = Router(ROUTES)
    for route, method, path in operations():
        exempt = path == "/audit" or path.endswith("/clientHeartbeat")
        expected = route.needs in CHANGES and not exempt
        assert is_change(router.find(method, path)) is expected, (method, path)


async def test_the_log_is_read_over_rest_newest_first(master: Master) -> None:
    await request(master, "PATCH", f"/jobs/{RUNNING}")
    await request(master, "PATCH", f"/jobs/{FINISHED}")
    answer = await request(master, "GET", "/audit")
    assert [entry["object"] for entry in answer.json()["entries"]] == [FINISHED, RUNNING]
    answer = await request(master, "GET", f"/audit?object={RUNNING[:6]}&caller=op&limit=5")
    assert [entry["object"] for entry in answer.json()["entries"]] == [RUNNING]
    assert (await request(master, "GET", "/audit", "eve")).status_code == 403


async def test_a_standby_leaves_a_forwarded_request_to_the_leader(
    master: Master, tmp_path: Path
) -> None:
    """The leader records the address of the client, not that of the standby."""
    audit = AuditLog(tmp_path / "standby", AuditOptions(max_size=ByteSize(1000)))
    async with master.serving() as leader:
        standby = Master(tokens=master.tokens, leading=False, leader=leader, audit=audit)
        async with standby.serving() as url, httpx.AsyncClient(base_url=url) as http:
            token = {"authorization": f"Bearer {text_of('op', 'secret')}"}
            assert (await http.patch(f"/jobs/{RUNNING}", headers=token)).status_code == 202
            assert (await http.patch(f"/jobs/{RUNNING}")).status_code == 401
        [refused] = await entries(standby)
        assert refused.status == 401
    [done] = await entries(master)
    assert (done.status, done.caller) == (202, "op")


class HangingDispatcher(DispatcherInMemory):
    """Its cancellations take effect, and their answers come when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.has_cancelled = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def cancel_job(self, job_id: JobId) -> None:
        await super().cancel_job(job_id)
        self.has_cancelled.set()
        await self.may_answer.wait()


async def test_a_change_that_is_cut_off_by_the_end_of_the_server_is_recorded(
    master: Master,
) -> None:
    """Nobody knows whether it took effect; the log must not be silent about it."""
    dispatcher = HangingDispatcher()
    master.dispatcher = dispatcher
    change = asyncio.create_task(request(master, "PATCH", f"/jobs/{RUNNING}"))
    await dispatcher.has_cancelled.wait()
    change.cancel()
    assert (await change).status_code == 503
    [entry] = await entries(master)
    assert (entry.caller, entry.object, entry.outcome) == ("op", RUNNING, "unknown")
    assert "may have taken effect" in entry.reason


async def test_a_query_that_is_cut_off_leaves_no_line(master: Master) -> None:
    master.dispatcher.gate.clear()
    query = asyncio.create_task(request(master, "GET", "/jobs"))
    await master.dispatcher.arrived.wait()
    query.cancel()
    assert (await query).status_code == 503
    assert await entries(master) == []


async def test_a_change_whose_caller_has_gone_is_recorded(master: Master) -> None:
    dispatcher = HangingDispatcher()
    master.dispatcher = dispatcher
    async with master.serving() as url:
        parts = urlsplit(url)
        _, writer = await asyncio.open_connection(parts.hostname, parts.port)
        token = text_of("op", "secret")
        head = f"PATCH /jobs/{RUNNING} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        writer.write(f"{head}Authorization: Bearer {token}\r\n\r\n".encode())
        await dispatcher.has_cancelled.wait()
        writer.close()
        await writer.wait_closed()
        dispatcher.may_answer.set()
        # The server waits for the requests that it is answering.
    [entry] = await entries(master)
    assert (entry.caller, entry.object, entry.outcome) == ("op", RUNNING, "done")

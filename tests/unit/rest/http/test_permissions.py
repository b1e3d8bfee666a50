"""Each route states the permission that it needs, and no spelling of its path escapes the check."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from stoker.client import calls
from stoker.core.ids import JobId
from stoker.rest.app import ROUTES, build_app, router
from stoker.rest.http.asgi import Message
from stoker.rest.http.routing import Route, get
from stoker.rest.options import RestOptions
from stoker.security.tokens import Permission, Role, Token, TokenFile, allows, hash_of, text_of
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import RUNNING, new_graph

JOB = "/jobs/0123456789abcdef0123456789abcdef"
CHANGES = (Permission.SUBMIT, Permission.CONTROL, Permission.OPERATE)


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    """A token for each role; its id is the role."""
    file = TokenFile(tmp_path / "tokens.json")
    for role in Role:
        sha256 = hash_of(text_of(role.value, "secret"))
        file.add(Token(id=role.value, name=role.value, role=role, sha256=sha256, created_ms=0))
    return file


def operations() -> Iterator[tuple[Route, str, str]]:
    """Each route with each of its methods and paths; parameters have a value."""
    for route in ROUTES:
        for path in route.paths:
            for method in route.methods:
                yield (
                    route,
                    method,
                    path.replace("{jobid}", RUNNING).replace("{", "").replace("}", ""),
                )


def spellings(path: str) -> list[str]:
    """Ways to write a path that lead to the same handler, as they stand in a request."""
    escaped = "/".join("".join(f"%{ord(c):02x}" for c in part) for part in path.split("/"))
    written = [
        path,
        f"{path}/",
        f"{path}//",
        f"/{path}",
        path.replace("/", "//"),
        f"/v1{path}",
        f"/v1/{path}",
        f"/v1{path}/",
        f"//v1//{path}//",
        escaped,
        f"/%76%31{escaped}/",
        path.replace("/", "%2f"),
        f"{path}%2F",
    ]
    return [each for each in written if each.startswith("/")]


async def status_of(app: Any, method: str, raw_path: str, token: str | None) -> int:
    """The status of the answer. The path reaches the app as the HTTP server would pass it."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    headers = [(b"host", b"127.0.0.1:8081")]
    if token is not None:
        headers.append((b"authorization", f"Bearer {token}".encode()))
    scope = {
        "type": "http",
        "method": method,
        "path": unquote(raw_path),
        "raw_path": raw_path.encode(),
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 40000),
    }
    await app(scope, receive, send)
    return int(sent[0]["status"])


@pytest.mark.parametrize("leading", [True, False], ids=["leader", "standby"])
async def test_no_spelling_of_a_path_escapes_the_check(tokens: TokenFile, leading: bool) -> None:
    options = RestOptions(bind_port="0", max_requests_per_second=0)
    master = Master(tokens=tokens, leading=leading, options=options)
    app = build_app(master.services)
    checked = 0
    for route, method, path in operations():
        if route.needs is Permission.OPEN:
            continue
        for spelling in spellings(path):
            asked = (method, spelling)
            assert await status_of(app, *asked, None) == 401, asked
            for role in Role:
                if not allows(role, route.needs):
                    token = text_of(role.value, "secret")
                    assert await status_of(app, *asked, token) == 403, (role, asked)
                    checked += 1
    assert checked > 500
    assert master.dispatcher.cancelled == []


def test_every_spelling_leads_to_the_same_handler() -> None:
    for route, method, path in operations():
        for spelling in spellings(path):
            found = router().find(method, unquote(spelling))
            assert found.route is not None, (method, spelling)
            assert found.route.handler is route.handler, (method, spelling)
            assert found.path == (path.rstrip("/") or "/")


async def test_the_http_server_passes_paths_to_the_same_check(tokens: TokenFile) -> None:
    master = Master(tokens=tokens)
    token = text_of("read", "secret")
    async with master.serving() as url:
        for spelling in spellings(f"/jobs/{RUNNING}/yarn-cancel"):
            reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
            writer.write(
                f"GET {spelling} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n"
                f"authorization: Bearer {token}\r\n\r\n".encode()
            )
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            assert answer.startswith(b"HTTP/1.1 403 "), spelling
    assert master.dispatcher.cancelled == []


async def test_any_token_may_learn_that_there_is_no_such_operation(tokens: TokenFile) -> None:
    app = build_app(Master(tokens=tokens).services)
    for method, path in (("GET", "/nothing"), ("DELETE", "/jobs"), ("OPTIONS", "/jobs")):
        assert await status_of(app, method, path, None) == 401
        status = await status_of(app, method, path, text_of("submit", "secret"))
        assert status == (204 if method == "OPTIONS" else 404)


def test_a_route_without_a_permission_cannot_be_declared() -> None:
    with pytest.raises(TypeError, match="needs"):
        get("/things")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("method", "path", "needs"),
    [
        ("GET", "/", Permission.OPEN),
        ("GET", "/openapi.json", Permission.OPEN),
        ("GET", "/overview", Permission.QUERY),
        ("GET", JOB, Permission.QUERY),
        ("GET", f"{JOB}/status", Permission.QUERY),
        ("GET", f"{JOB}/attempts/a/stdout", Permission.QUERY),
        ("GET", "/jobs", Permission.QUERY),
        ("GET", "/jobs/overview", Permission.QUERY),
        ("GET", "/jobs/metrics", Permission.READ),
        ("GET", "/taskmanagers", Permission.READ),
        ("GET", "/jars", Permission.READ),
        ("GET", "/savepoints/show", Permission.QUERY),
        ("POST", "/jobs", Permission.SUBMIT),
        ("POST", "/jars/upload", Permission.SUBMIT),
        ("POST", "/jars/abc/run", Permission.SUBMIT),
        ("POST", "/jars/abc/run-application", Permission.SUBMIT),
        ("GET", "/jars/abc/plan", Permission.SUBMIT),
        ("PATCH", f"{JOB}/clientHeartbeat", Permission.SUBMIT),
        ("PATCH", JOB, Permission.CONTROL),
        ("GET", f"{JOB}/yarn-cancel", Permission.CONTROL),
        ("GET", f"{JOB}/yarn-stop", Permission.CONTROL),
        ("POST", f"{JOB}/savepoints", Permission.CONTROL),
        ("POST", f"{JOB}/stop", Permission.CONTROL),
        ("POST", f"{JOB}/upgrade", Permission.CONTROL),
        ("POST", f"{JOB}/rescale", Permission.CONTROL),
        ("POST", f"{JOB}/checkpoints", Permission.CONTROL),
        ("GET", "/audit", Permission.OPERATE),
        ("DELETE", "/jars/abc", Permission.OPERATE),
        ("DELETE", "/cluster", Permission.OPERATE),
        ("POST", "/quarantine/abc/retry", Permission.OPERATE),
    ],
)
def test_an_operation_needs_no_more_and_no_less(method: str, path: str, needs: Permission) -> None:
    assert router().find(method, path).needs is needs


def test_an_operation_that_changes_something_is_never_a_query() -> None:
    for route in ROUTES:
        # Whoever logs in or out has no token yet, or gives it up.
        if set(route.methods) - {"GET"} and route.paths != ("/session",):
            assert route.needs in CHANGES, route.paths


def test_the_submit_role_may_submit_follow_and_end_jobs_and_nothing_else() -> None:
    """Uses the paths of the real client calls. Which jobs: test_ownership.py."""
    job = JobId("a" * 32)
    allowed = [
        calls.submit(new_graph()),
        calls.job(job),
        calls.status(job),
        calls.exceptions(job),
        calls.heartbeat(job, 1.0),
        calls.cancel(job),
        calls.jobs(),
    ]
    refused = [calls.quarantined(), calls.task_executors(), calls.audit(), calls.shut_down()]

    def is_allowed(call: calls.RestCall[Any]) -> bool:
        return allows(Role.SUBMIT, router().find(call.method, call.path).needs)

    assert all(map(is_allowed, allowed))
    assert not any(map(is_allowed, refused))

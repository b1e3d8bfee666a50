"""Callers with the cookie of the web page instead of a token."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from stoker.rest.http.page_access import KEY_FILE, PageSessions, read_or_make_key
from stoker.rest.options import RestOptions
from stoker.security.page_sessions import LIFETIME_MS, PageSession, SessionKey
from stoker.security.tokens import Role, Token, TokenFile, hash_of, text_of
from stoker.storage.memory import MemoryStorage
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import NOW, RUNNING

KEY = SessionKey(b"k" * 32)
ORIGIN = "http://127.0.0.1:8081"
FROM_PAGE = {"origin": ORIGIN, "stoker-page": "1"}


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    file = TokenFile(tmp_path / "tokens.json")
    for role in Role:
        sha256 = hash_of(text_of(role.value, "secret"))
        file.add(Token(id=role.value, name=role.value, role=role, sha256=sha256, created_ms=0))
    return file


@pytest.fixture
async def http(tokens: TokenFile) -> AsyncIterator[httpx.AsyncClient]:
    options = RestOptions(bind_port="0", max_requests_per_second=0)
    master = Master(tokens=tokens, options=options, page_sessions=PageSessions(KEY))
    async with master.in_process() as client:
        yield client


async def log_in(http: httpx.AsyncClient, role: Role = Role.OPERATE) -> Any:
    answer = await http.post(
        "/session", json={"token": text_of(role.value, "secret")}, headers={"origin": ORIGIN}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_token_is_given_once_and_the_cookie_is_used_from_then_on(
    http: httpx.AsyncClient,
) -> None:
    before = (await http.get("/session")).json()
    assert (before["token_wanted"], before["name"], before["allowed"]) == (True, None, [])
    assert (await http.get("/jobs")).status_code == 401
    logged_in = await log_in(http, Role.READ)
    assert (logged_in["name"], logged_in["role"]) == ("read", "read")
    assert logged_in["until"] == NOW + LIFETIME_MS
    assert (await http.get("/jobs")).status_code == 200
    assert (await http.get("/session")).json() == logged_in


async def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites(
    http: httpx.AsyncClient,
) -> None:
    text = text_of("read", "secret")
    answer = await http.post("/session", json={"token": text})
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Secure" not in cookie, "without TLS a browser would drop it"
    assert text not in cookie
    assert KEY.cookie_name(is_secure=True).startswith("__Host-")


@pytest.mark.parametrize("text", ["", "stk_read_wrong", "stk_nobody_secret", "x" * 5000])
async def test_a_wrong_token_begins_no_session(http: httpx.AsyncClient, text: str) -> None:
    answer = await http.post("/session", json={"token": text})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert "does not belong to this cluster" in answer.json()["errors"][0]


async def test_who_logs_out_is_nobody(http: httpx.AsyncClient) -> None:
    await log_in(http)
    assert (await http.delete("/session", headers=FROM_PAGE)).json()["name"] is None
    assert (await http.get("/jobs")).status_code == 401


async def test_a_session_ends_at_once_with_its_token(
    http: httpx.AsyncClient, tokens: TokenFile
) -> None:
    await log_in(http, Role.READ)
    tokens.revoke("read")
    assert (await http.get("/jobs")).status_code == 401
    assert (await http.get("/session")).json()["name"] is None


async def test_the_role_of_the_token_is_that_of_the_session(http: httpx.AsyncClient) -> None:
    await log_in(http, Role.READ)
    refused = await http.patch(f"/jobs/{RUNNING}", headers=FROM_PAGE)
    assert refused.status_code == 403
    assert "has the role read" in refused.json()["errors"][0]


@pytest.mark.parametrize(
    "headers",
    [{}, {"origin": ORIGIN}, {"stoker-page": "1"}, {"origin": ORIGIN, "stoker-page": "0"}],
)
async def test_a_change_must_come_from_the_page_itself(
    http: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    await log_in(http)
    refused = await http.patch(f"/jobs/{RUNNING}", headers=headers)
    assert refused.status_code == 403
    assert "Stoker-Page" in refused.json()["errors"][0]


async def test_the_page_changes_what_its_caller_may_change(http: httpx.AsyncClient) -> None:
    await log_in(http)
    assert (await http.patch(f"/jobs/{RUNNING}", headers=FROM_PAGE)).status_code == 202


async def test_another_site_cannot_use_the_cookie(http: httpx.AsyncClient) -> None:
    await log_in(http)
    foreign = {**FROM_PAGE, "origin": "http://evil.example"}
    assert (await http.patch(f"/jobs/{RUNNING}", headers=foreign)).status_code == 403
    cross_site = {"sec-fetch-site": "cross-site"}
    assert (await http.get("/jobs", headers=cross_site)).status_code == 403


@pytest.mark.parametrize("path", [f"/jobs/{RUNNING}/yarn-cancel", f"/jobs/{RUNNING}/yarn-stop"])
async def test_a_get_request_that_changes_something_needs_a_token(
    http: httpx.AsyncClient, path: str
) -> None:
    await log_in(http)
    refused = await http.get(path, headers=FROM_PAGE)
    assert refused.status_code == 403
    assert "needs a token" in refused.json()["errors"][0]
    bearer = {"authorization": f"Bearer {text_of('operate', 'secret')}"}
    assert (await http.get(path, headers=bearer)).status_code != 403


async def test_a_session_in_use_is_prolonged_when_half_of_it_is_over(
    http: httpx.AsyncClient,
) -> None:
    name = KEY.cookie_name(is_secure=False)
    for left, prolonged in ((LIFETIME_MS // 2 - 1, True), (LIFETIME_MS // 2 + 1, False)):
        session = PageSession(token_id="read", until=NOW + left)
        http.cookies.clear()
        answer = await http.get("/jobs", headers={"cookie": f"{name}={KEY.sign(session)}"})
        assert answer.status_code == 200
        assert ("set-cookie" in answer.headers) is prolonged


@pytest.mark.parametrize("cookie", ["", "a=b", "=", "stoker-x=1; ;;", "\x00", "x" * 20_000])
async def test_cookies_of_others_are_ignored(http: httpx.AsyncClient, cookie: str) -> None:
    assert (await http.get("/jobs", headers={"cookie": cookie})).status_code == 401


async def test_without_tokens_nobody_logs_in() -> None:
    async with Master(local_user="ana").in_process() as http:
        answer = (await http.get("/session")).json()
        assert (answer["token_wanted"], answer["name"]) == (False, "ana")
        again = await http.post("/session", json={"token": "x"})
        assert again.json() == answer
        assert "set-cookie" not in again.headers


async def test_before_the_key_is_read_log_in_is_put_off(tokens: TokenFile) -> None:
    async with Master(tokens=tokens).in_process() as http:
        answer = await http.post("/session", json={"token": text_of("read", "secret")})
    assert answer.status_code == 503
    assert "try again" in answer.json()["errors"][0]


async def test_masters_share_one_key() -> None:
    storage = MemoryStorage(lambda: NOW)
    first = await read_or_make_key(storage)
    assert await read_or_make_key(storage) == first
    assert await storage.read(KEY_FILE) == first.key

"""The web page in a real browser: logging in, looking, filtering, cancelling, logging out."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Page, expect, sync_playwright

from integration.browser import CHROMIUM, needs_browser
from stoker.core.ids import JobId
from stoker.rest.http.page_access import PageSessions
from stoker.security.page_sessions import SessionKey
from stoker.security.tokens import Role, Token, TokenFile, hash_of, text_of
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import FAILED, NOW, RUNNING
from stoker.web.pages import PAGES

pytestmark = [
    needs_browser,
    pytest.mark.skipif(len(PAGES) < 6, reason="the page is not built: make web"),
]
HOSTILE = "<img src=x onerror=alert(1)> \u202egnp.exe " + "x" * 10_000
PATIENCE_MS = 15_000


@pytest.fixture
def master(tmp_path: Path) -> Master:
    """Tokens for every role; one job has a name that tries everything."""
    tokens = TokenFile(tmp_path / "tokens.json")
    for role in Role:
        sha256 = hash_of(text_of(role.value, "secret"))
        tokens.add(
            Token(
                id=role.value,
                name=role.value,
                role=role,
                sha256=sha256,
                created_ms=0,
                expires_ms=NOW + 3_600_000,
            )
        )
    made = Master(tokens=tokens, page_sessions=PageSessions(SessionKey(b"k" * 32)))
    job = made.dispatcher.jobs[FAILED]
    made.dispatcher.jobs[FAILED] = msgspec.structs.replace(job, name=HOSTILE)
    return made


async def in_browser(master: Master, visit: Callable[[Page, str], None]) -> list[str]:
    """Run the visit at the page of this master; returns what went wrong in the browser."""
    async with master.serving() as url:
        return await asyncio.to_thread(_visit, url, visit)


def _visit(url: str, visit: Callable[[Page, str], None]) -> list[str]:
    faults: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda each: faults.append(each.text) if each.type == "error" else None)
        page.on("dialog", lambda dialog: faults.append(f"a script ran: {dialog.message}"))
        page.on(
            "request",
            lambda request: None if request.url.startswith(url) else faults.append(request.url),
        )
        page.goto(f"{url}/")
        visit(page, url)
        browser.close()
    return faults


def log_in(page: Page, role: Role = Role.OPERATE) -> None:
    page.get_by_label("Token").fill(text_of(role.value, "secret"))
    page.get_by_role("button", name="Log in").click()
    expect(page.locator(".verdict")).to_be_visible()


async def test_who_logs_in_sees_the_cluster_in_a_sentence(master: Master) -> None:
    def visit(page: Page, _url: str) -> None:
        log_in(page)
        expect(page.locator(".verdict")).to_contain_text("in use")
        for title in ("Jobs", "Slots", "Ended last", "Happened last"):
            expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
        assert page.evaluate("document.cookie") == "", "scripts cannot read the cookie"
        assert "secret" not in page.evaluate("JSON.stringify(localStorage)")
        page.reload()
        expect(page.locator(".verdict")).to_be_visible()

    assert await in_browser(master, visit) == []


async def test_a_wrong_token_is_refused_in_the_dialog(master: Master) -> None:
    def visit(page: Page, _url: str) -> None:
        page.get_by_label("Token").fill("stk_operate_wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("does not belong to this cluster")
        log_in(page)

    faults = await in_browser(master, visit)
    assert all("401" in fault for fault in faults), "the browser itself reports the refusal"


async def test_jobs_are_filtered_in_the_address_and_cancelled_by_name(master: Master) -> None:
    def visit(page: Page, url: str) -> None:
        log_in(page)
        page.goto(f"{url}/#/jobs?filter=state:running")
        rows = page.locator("table.jobs tbody tr")
        expect(rows).to_have_count(1)
        rows.get_by_role("checkbox").check()
        page.get_by_role("button", name="Cancel 1 job").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("button", name="Keep")).to_be_focused()
        dialog.get_by_role("button", name="Cancel 1 job").click()
        expect(dialog).to_contain_text("is being cancelled")
        dialog.get_by_role("button", name="Close").click()
        page.get_by_role("searchbox").fill("state:nonsense")
        expect(page.get_by_text("There is no state “nonsense”")).to_be_visible()

    assert await in_browser(master, visit) == []
    assert RUNNING in master.dispatcher.cancelled


async def test_texts_of_strangers_are_texts(master: Master) -> None:
    def visit(page: Page, url: str) -> None:
        log_in(page)
        page.goto(f"{url}/#/jobs/{FAILED}")
        expect(page.locator("h1")).to_contain_text("<img src=x onerror=alert(1)> ⟨202E⟩")
        page.goto(f"{url}/#/jobs")
        expect(page.locator("table.jobs")).to_contain_text("<img src=x")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
            "no name is wide"
        )

    assert await in_browser(master, visit) == []


async def test_who_may_only_read_cannot_press_what_changes_something(master: Master) -> None:
    def visit(page: Page, url: str) -> None:
        log_in(page, Role.READ)
        page.goto(f"{url}/#/jobs/{RUNNING}")
        button = page.get_by_role("button", name="Cancel …")
        expect(button).to_be_disabled()
        assert "role operate" in (button.get_attribute("title") or "")

    assert await in_browser(master, visit) == []


async def test_who_submits_sees_the_page_with_its_own_jobs(master: Master) -> None:
    jobs: dict[JobId, object] = master.dispatcher.jobs  # type: ignore[assignment]
    owned = msgspec.structs.replace(master.dispatcher.jobs[RUNNING], owner="submit")
    jobs[RUNNING] = owned

    def visit(page: Page, url: str) -> None:
        log_in(page, Role.SUBMIT)
        page.goto(f"{url}/#/jobs")
        expect(page.locator("table.jobs tbody tr")).to_have_count(1)

    assert await in_browser(master, visit) == []


async def test_a_revoked_token_ends_the_session_and_keeps_the_view(master: Master) -> None:
    def visit(page: Page, url: str) -> None:
        log_in(page)
        page.goto(f"{url}/#/jobs?filter=state:failed")
        expect(page.locator("table.jobs tbody tr")).to_have_count(1)
        assert master.tokens is not None
        master.tokens.revoke("operate")
        expect(page.get_by_role("dialog")).to_be_visible()
        log_in_again = page.get_by_label("Token")
        log_in_again.fill(text_of("read", "secret"))
        page.get_by_role("button", name="Log in").click()
        expect(page.locator("table.jobs tbody tr")).to_have_count(1)

    faults = await in_browser(master, visit)
    assert all("401" in fault for fault in faults)


async def test_what_does_not_exist_is_said(master: Master) -> None:
    def visit(page: Page, url: str) -> None:
        log_in(page)
        page.goto(f"{url}/#/nowhere")
        expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
        page.goto(f"{url}/#/jobs/{'9' * 32}")
        expect(page.locator(".fault")).to_contain_text("9" * 32)

    faults = await in_browser(master, visit)
    assert all("404" in fault for fault in faults)


async def test_without_tokens_nobody_is_asked() -> None:
    def visit(page: Page, _url: str) -> None:
        expect(page.locator(".verdict")).to_be_visible()
        expect(page.get_by_role("button", name="Log out")).to_have_count(0)

    assert await in_browser(Master(local_user="ana"), visit) == []

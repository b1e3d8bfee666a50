"""The page that documents the API and sends requests to it, in a real browser."""

import asyncio
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

from integration.browser import CHROMIUM, needs_browser
from stoker.security.tokens import Role, Token, TokenFile, hash_of, text_of
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import NOW, RUNNING

pytestmark = needs_browser
TOKEN = text_of("reader", "secret")


def try_page(url: str, token: str | None) -> tuple[list[str], dict[str, str]]:
    """Errors on the page, and the answers that it shows for some requests."""
    faults: list[str] = []
    shown: dict[str, str] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page: Page = browser.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda each: faults.append(each.text) if each.type == "error" else None)
        page.goto(f"{url}/docs")
        if token is not None:
            page.get_by_label("Token").fill(token)
        for path, fields in (
            ("/jobs/overview", {}),
            ("/jobs/{jobid}/status", {"jobid (path)": RUNNING}),
        ):
            page.get_by_label("Find").fill(f"GET {path}")
            section = page.locator("details:visible").first
            section.locator("summary").click()
            for label, value in fields.items():
                section.get_by_label(label).fill(value)
            section.get_by_role("button", name="Send").click()
            section.locator("pre").filter(has_text="200 OK").wait_for(timeout=30_000)
            shown[path] = section.locator("pre").inner_text()
        page.get_by_label("Find").fill("PUT /jobs/{jobid}/resource-requirements")
        section = page.locator("details:visible").first
        section.locator("summary").click()
        section.get_by_label("body (JSON)").wait_for()
        browser.close()
    return faults, shown


@pytest.mark.parametrize("token", [None, TOKEN])
async def test_operations_can_be_found_and_tried_without_errors(
    tmp_path: Path, token: str | None
) -> None:
    master = Master()
    if token is not None:
        master.tokens = TokenFile(tmp_path / "tokens.json")
        master.tokens.add(
            Token(
                id="reader",
                name="reader",
                role=Role.READ,
                sha256=hash_of(token),
                created_ms=0,
                expires_ms=NOW + 1000,
            )
        )
    async with master.serving() as url:
        faults, shown = await asyncio.to_thread(try_page, url, token)
    assert faults == []
    assert RUNNING in shown["/jobs/overview"]
    assert '"status": "RUNNING"' in shown["/jobs/{jobid}/status"]

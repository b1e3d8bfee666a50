"""The page for people, as a master serves it."""

import pytest

from stoker.testing.rest import Master
from stoker.web.pages import PAGES

BUILT = any(path.startswith("/assets/") for path in PAGES)


async def test_the_page_may_do_nothing_but_ask_its_own_server() -> None:
    async with Master().in_process() as http:
        answer = await http.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(
        each.strip().split(" ", 1) for each in answer.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == policy["style-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert answer.headers["cache-control"] == "no-store", "a new release is seen at once"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"


@pytest.mark.skipif(not BUILT, reason="the page is not built: make web")
async def test_files_are_served_by_their_names_alone() -> None:
    async with Master().in_process() as http:
        for path, page in PAGES.items():
            answer = await http.get(path)
            assert answer.status_code == 200
            assert answer.headers["content-type"] == page.media_type
            if path.startswith("/assets/"):
                assert "immutable" in answer.headers["cache-control"]
        for path in ("/assets/", "/assets/nothing.js", "/assets/../pages.py", "/static/index.html"):
            assert (await http.get(path)).status_code == 404


@pytest.mark.skipif(not BUILT, reason="the page is not built: make web")
async def test_the_page_is_small_and_has_neither_inline_code_nor_foreign_addresses() -> None:
    async with Master().in_process() as http:
        start = (await http.get("/")).text
        sizes = [
            int(
                (await http.get(path, headers={"accept-encoding": "gzip"})).headers[
                    "content-length"
                ]
            )
            for path in PAGES
            if path.startswith("/assets/")
        ]
    assert "<style" not in start
    assert "<script>" not in start
    assert "://" not in start
    assert "data:" not in start
    assert sum(sizes) < 200_000


async def test_a_standby_serves_the_page_as_well() -> None:
    async with Master(leading=False).in_process() as http:
        assert (await http.get("/")).status_code == 200
        assert (await http.get("/session")).status_code == 200

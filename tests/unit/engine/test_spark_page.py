"""Tokens for Spark's monitoring page."""

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from stoker.engine.spark_page import (
    FILTERS,
    KEY,
    new_page_key,
    open_page,
    page_key_in,
    page_settings,
    page_token,
    with_token,
    without_token,
)

URL = "http://127.0.0.1:4040"


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


@pytest.fixture
def page() -> Iterator[tuple[str, list[str | None]]]:
    """A page that answers every question, and the headers that it got."""
    heard: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers.get("Authorization"))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"path": self.path}).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", heard
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_token_is_signed_with_the_key() -> None:
    key = new_page_key()
    header, claims, signature = page_token(key).split(".")
    assert json.loads(decoded(header)) == {"alg": "HS256"}
    assert json.loads(decoded(claims)) == {"sub": "stoker"}
    signed = hmac.digest(decoded(key), f"{header}.{claims}".encode(), hashlib.sha256)
    assert decoded(signature) == signed


def test_every_spark_has_a_key_of_its_own() -> None:
    first, second = new_page_key(), new_page_key()
    assert first != second
    assert len(decoded(first)) == 32


def test_a_page_that_the_user_has_opened_needs_no_token() -> None:
    settings = page_settings(new_page_key())
    assert page_key_in(settings) == settings[KEY]
    assert page_key_in(settings | {FILTERS: ""}) == ""
    assert page_key_in(settings | {FILTERS: f"mine.Filter,{settings[FILTERS]}"}) == settings[KEY]
    assert page_key_in({}) == ""
    assert with_token(URL, "") == URL


def test_the_token_travels_in_the_url_and_is_not_shown() -> None:
    key = new_page_key()
    url = with_token(f"{URL}/api?x=1", key)
    assert page_token(key) in url
    assert without_token(url) == f"{URL}/api?x=1"
    assert without_token("") == ""


def test_a_question_carries_the_token_in_a_header_only(
    page: tuple[str, list[str | None]],
) -> None:
    url, heard = page
    key = new_page_key()
    answer = open_page(f"{with_token(url, key)}/api/v1/applications?a=b", seconds=5)
    assert answer == {"path": "/api/v1/applications?a=b"}
    assert open_page(url, seconds=5) == {"path": "/"}
    assert heard == [f"Bearer {page_token(key)}", None]

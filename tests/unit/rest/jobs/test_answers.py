"""Compression, requests from other origins, the API page, and names of programs."""

import pytest

from stoker.core.errors import InvalidInput
from stoker.rest.http.compression import accepts_gzip
from stoker.rest.options import RestOptions
from stoker.rest.programs.store import program_name
from stoker.testing.rest import Master

ELSEWHERE = "https://dashboard.example"


async def test_a_large_answer_is_compressed_for_clients_that_accept_gzip() -> None:
    async with Master().in_process() as http:
        packed = await http.get("/openapi.json", headers={"accept-encoding": "gzip"})
        plain = await http.get("/openapi.json", headers={"accept-encoding": "identity"})
        small = await http.get("/overview", headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(plain.content) / 4
    assert packed.content == plain.content
    assert "content-encoding" not in plain.headers
    assert "content-encoding" not in small.headers


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        (None, False),
        (b"", False),
        (b"br", False),
        (b"gzip", True),
        (b"br, GZIP;q=0.5", True),
        (b"gzip; q=0", False),
        (b"*", True),
    ],
)
def test_the_accepted_encodings_are_read_from_the_header(
    header: bytes | None, accepted: bool
) -> None:
    assert accepts_gzip(header) is accepted


@pytest.mark.parametrize(
    ("allowed", "status", "answered"),
    [("", 403, None), ("*", 200, "*"), (f"https://x.example,{ELSEWHERE}", 200, ELSEWHERE)],
)
async def test_pages_of_another_origin_are_served_only_if_configured(
    allowed: str, status: int, answered: str | None
) -> None:
    master = Master(options=RestOptions(bind_port="0", allow_origin=allowed))
    async with master.in_process() as http:
        answer = await http.get("/overview", headers={"origin": ELSEWHERE})
        asked = await http.options(
            "/jobs", headers={"origin": ELSEWHERE, "access-control-request-method": "POST"}
        )
    assert answer.status_code == status
    assert answer.headers.get("access-control-allow-origin") == answered
    assert asked.status_code == (204 if answered else 403)


async def test_the_api_page_loads_nothing_from_other_machines() -> None:
    async with Master(leading=False).in_process() as http:
        answers = [await http.get(path) for path in ("/docs", "/v1/docs", "/docs.js", "/docs.css")]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert not any("http://" in answer.text or "https://" in answer.text for answer in answers)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("a.py", "a.py"),
        ("/etc/cron.d/a.sql", "a.sql"),
        ("C:\\jobs\\b.YML", "b.YML"),
        ("naïve job.whl", "naïve job.whl"),
        ("x;rm -rf.zip", "x_rm -rf.zip"),
    ],
)
def test_a_clients_file_name_loses_its_directories_and_special_characters(
    given: str, name: str
) -> None:
    assert program_name(given) == name


@pytest.mark.parametrize("given", ["", "a.jar", "..", ".py", "a.py\n"])
def test_a_file_of_an_unknown_type_is_refused(given: str) -> None:
    with pytest.raises(InvalidInput, match="a program is a file with one of"):
        program_name(given)

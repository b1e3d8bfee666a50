"""Malformed requests: each is refused, none causes an internal error."""

import json
from functools import cache
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.rest.app import HANDLERS, build_app
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import RUNNING

PATHS = sorted(
    (method, path)
    for handler in HANDLERS
    for method in handler.methods
    for path in handler.paths
    if not path.endswith("/events") and method not in ("HEAD", "OPTIONS")
)
NUMBERS = st.sampled_from(["-1", "0", "1e999", "9" * 400, "0x10", "NaN", "1.5", "٣", "1_000"])
TEXTS = st.one_of(
    NUMBERS,
    st.text(max_size=40),
    st.sampled_from([RUNNING, "f" * 32, "1" * 31, "..", "%2e%2e", "null", "{}", "\x00", "\ud7ff"]),
)
DEEP = st.integers(1, 3000).map(lambda depth: "[" * depth)
BODIES = st.one_of(
    st.binary(max_size=200),
    DEEP.map(str.encode),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=20), inner),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
)
HEADERS = st.dictionaries(
    st.sampled_from(
        ["accept-encoding", "content-type", "idempotency-key", "range", "x-stoker-forwarded"]
    ),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40),
    max_size=3,
)
QUERY_NAMES = (
    *("get", "agg", "jobs", "subtasks", "mode", "wait", "known", "offset", "limit", "sort"),
    *("state", "type", "name", "parallelism", "maxExceptions", "failureLabelFilter"),
    *("includeSerializedValue", "entry-class", "programArg", "savepointPath"),
)
PARAMETERS = st.dictionaries(
    st.sampled_from(QUERY_NAMES),
    TEXTS,
    max_size=3,
)
BOUNDED = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def encoded(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode("utf-8", "surrogatepass")) or "%20"


@cache
def transport() -> httpx.ASGITransport:
    """One server for all requests, so that one that damages its state makes later ones fail."""
    return httpx.ASGITransport(build_app(Master().services), raise_app_exceptions=False)


async def status_of(method: str, path: str, **request: Any) -> int:
    async with httpx.AsyncClient(transport=transport(), base_url="http://127.0.0.1:8081") as http:
        answer = await http.request(method, path, **request)
    if answer.status_code >= 400:
        assert list(answer.json()) == ["errors"]
    return answer.status_code


@BOUNDED
@given(st.data())
async def test_no_request_causes_an_internal_error(data: st.DataObject) -> None:
    method, path = data.draw(st.sampled_from(PATHS))
    for name in [part[1:-1] for part in path.split("/") if part.startswith("{")]:
        path = path.replace(f"{{{name}}}", encoded(data.draw(TEXTS, label=name)))
    query = data.draw(PARAMETERS)
    if "wait" in query:
        query["wait"] = "0"
    headers = data.draw(HEADERS)
    status = await status_of(method, path, params=query, headers=headers, content=data.draw(BODIES))
    assert status < 500 or status == 503


@BOUNDED
@given(
    st.sampled_from(["/jobs", "/jars/upload"]),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=80),
    st.lists(
        st.sampled_from(
            [
                b"--b\r\n",
                b"--b--\r\n",
                b"--b",
                b"\r\n",
                b'Content-Disposition: form-data; name="graph"\r\n\r\n',
                b'Content-Disposition: form-data; name="artifact"; filename="../x.py"\r\n\r\n',
                b"Content-Disposition: form-data\r\n\r\n",
                b"{}",
                b"\xff\xfe",
                b"[" * 5000,
            ]
        ),
        max_size=8,
    ),
)
async def test_no_multipart_body_causes_an_internal_error(
    path: str, parameters: str, pieces: list[bytes]
) -> None:
    for content_type in ("multipart/form-data; boundary=b", f"multipart/form-data; {parameters}"):
        status = await status_of(
            "POST", path, headers={"content-type": content_type}, content=b"".join(pieces)
        )
        assert status < 500


@pytest.mark.parametrize("depth", [100, 100_000])
async def test_json_of_any_depth_causes_no_internal_error(depth: int) -> None:
    content = b'{"a":' * depth + b"1" + b"}" * depth
    status = await status_of("POST", f"/jobs/{RUNNING}/checkpoints", content=content)
    assert status in (202, 400)

"""Requests generated from Stoker's OpenAPI document get only answers that the document has."""

from typing import Any

import httpx
import msgspec
import schemathesis
from hypothesis import HealthCheck, settings

from stoker.rest.app import HANDLERS, build_app
from stoker.rest.openapi.document import openapi_document
from stoker.testing.rest import Master

DOCUMENT = msgspec.json.decode(openapi_document(HANDLERS, "0"))
schema = schemathesis.openapi.from_dict(DOCUMENT).exclude(path_regex="events$|/jars/.*/(run|plan)")
APP = build_app(Master().services)


@schema.parametrize()
@settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
async def test_no_request_from_the_document_causes_a_server_error(case: Any) -> None:
    request = case.as_transport_kwargs(base_url="http://127.0.0.1:8081")
    request.pop("cookies", None)
    if "wait" in (request.get("params") or {}):
        return
    content = request.pop("data", None)
    transport = httpx.ASGITransport(APP, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport) as http:
        answer = await http.request(
            request["method"],
            request["url"],
            params=request.get("params"),
            headers={key: value for key, value in request["headers"].items() if value.isascii()},
            content=content if isinstance(content, bytes | str) else None,
            json=request.get("json"),
        )
    assert answer.status_code < 500 or answer.status_code == 503, answer.text
    operation = DOCUMENT["paths"][case.path].get(case.method.lower())
    if operation is None:
        assert answer.status_code in (204, 403, 404), "the path does not have this method"
        return
    assert str(answer.status_code) in operation["responses"], answer.text

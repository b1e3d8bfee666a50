"""The OpenAPI document of the whole API."""

from collections.abc import Sequence
from typing import Any

import msgspec
from litestar import Litestar
from litestar.di import Provide
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Server

from stoker.api.shape import RETRY_AFTER
from stoker.api.submission import IDEMPOTENCY_KEY
from stoker.api.versions import SERVER_HEADER
from stoker.rest.http.middleware import SECURITY_HEADERS
from stoker.rest.openapi.bodies import request_bodies

_ERROR_SCHEMA = {
    "type": "object",
    "required": ["errors"],
    "properties": {"errors": {"type": "array", "items": {"type": "string"}}},
}
_ERRORS = {
    "400": "The request cannot be understood",
    "401": "The cluster wants a token, and the request has none that is valid",
    "403": "The token's role, the host or the web page that asks is not allowed to",
    "404": "There is no such thing",
    "409": "The job's state does not allow it",
    "413": "The request is too large",
    "429": "Too many requests or uploads; ask again",
    "503": "No master leads at the moment; ask again",
}
_HEADERS = {
    "401": {"WWW-Authenticate": "Which scheme is wanted: Bearer"},
    "429": {RETRY_AFTER: "Seconds after which asking again makes sense"},
    "503": {RETRY_AFTER: "Seconds after which asking again makes sense"},
}
_PER_ANSWER = (b"content-security-policy", b"cache-control")
"""Pages and files have their own."""
_BEARER = "token"
_OPEN = "Without a token: a cluster that has none lets everybody in who reaches it."


def openapi_document(handlers: Sequence[HTTPRouteHandler], version: str) -> bytes:
    """Costs some time and memory, so it is made when somebody asks for it."""
    described = Litestar(
        route_handlers=list(handlers),
        dependencies={"services": Provide(_no_services, sync_to_thread=False)},
        logging_config=None,
        openapi_config=OpenAPIConfig(
            title="Stoker",
            version=version,
            description="Jobs, task executors and the cluster, in the form of Flink's REST API.",
            servers=[Server(url="/v1"), Server(url="/")],
        ),
    )
    document = described.openapi_schema.to_schema()
    for (path, method), body in request_bodies().items():
        document["paths"][path][method]["requestBody"] = body
    document["paths"]["/jobs"]["post"]["parameters"] = [_idempotency_key()]
    for operations in document["paths"].values():
        for operation in operations.values():
            operation["responses"].update(_error_responses())
            for answer in operation["responses"].values():
                answer.setdefault("headers", {}).update(_security_headers())
    schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes[_BEARER] = {"type": "http", "scheme": "bearer", "description": _OPEN}
    document["security"] = [{_BEARER: []}, {}]
    return msgspec.json.encode(document)


def _security_headers() -> dict[str, Any]:
    fixed = {
        name.decode(): {"schema": {"type": "string", "const": value.decode()}}
        for name, value in SECURITY_HEADERS
        if name not in _PER_ANSWER
    }
    return fixed | {
        SERVER_HEADER: {
            "schema": {"type": "string"},
            "description": "Version of the master that answered, and of the API: 0.1.0 api/1",
        }
    }


def _no_services() -> None:
    return None


def _idempotency_key() -> dict[str, Any]:
    return {
        "name": IDEMPOTENCY_KEY,
        "in": "header",
        "required": False,
        "schema": {"type": "string"},
        "description": "A repeated submission with the same key gives the first answer.",
    }


def _error_responses() -> dict[str, Any]:
    return {
        status: {
            "description": meaning,
            "headers": {
                name: {"description": text, "schema": {"type": "string"}}
                for name, text in _HEADERS.get(status, {}).items()
            },
            "content": {"application/json": {"schema": _ERROR_SCHEMA}},
        }
        for status, meaning in _ERRORS.items()
    }

"""Generates the OpenAPI document from the routes and the structs of requests and responses."""

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from stoker.api.shape import RETRY_AFTER
from stoker.api.versions import SERVER_HEADER
from stoker.rest.http.asgi import JSON, Response, Stream
from stoker.rest.http.middleware import SECURITY_HEADERS
from stoker.rest.http.routing import Parameter, Route, path_parameters
from stoker.rest.openapi.bodies import json_body

_ERROR_SCHEMA = {
    "type": "object",
    "required": ["errors"],
    "properties": {"errors": {"type": "array", "items": {"type": "string"}}},
}
_ERRORS = {
    "400": "The request is malformed",
    "401": "The cluster requires a token, and the request has no valid one",
    "403": "The token's role, the host or the origin does not allow the request",
    "404": "Not found",
    "409": "The state of the job does not allow it",
    "413": "The request is too large",
    "429": "Too many requests or uploads; try again",
    "503": "No master leads at the moment; try again",
}
_HEADERS = {
    "401": {"WWW-Authenticate": "The required scheme: Bearer"},
    "429": {RETRY_AFTER: "Seconds to wait before the next try"},
    "503": {RETRY_AFTER: "Seconds to wait before the next try"},
}
_SUCCESS = {200: "The answer", 202: "Accepted; the operation continues after the response"}
_PER_ANSWER = (b"content-security-policy", b"cache-control")
"""Left out of the document, so that a response may have a value of its own."""
_BEARER = "token"
_OPEN = "Not needed in a cluster without tokens, which admits every caller that reaches it."


def openapi_document(routes: Sequence[Route], version: str) -> bytes:
    """Takes some time and memory, so callers generate it on demand and keep it."""
    schemas = _Schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        for path in route.paths:
            for method in route.methods:
                operation = _operation(route, path, method, schemas)
                paths.setdefault(path, {})[method.lower()] = operation
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Stoker",
                "version": version,
                "description": "Jobs, task executors and the cluster, in the form of Flink's REST "
                "API.",
            },
            "servers": [{"url": "/v1"}, {"url": "/"}],
            "paths": paths,
            "components": {
                "schemas": schemas.components,
                "securitySchemes": {
                    _BEARER: {"type": "http", "scheme": "bearer", "description": _OPEN}
                },
            },
            "security": [{_BEARER: []}, {}],
        }
    )


class _Schemas:
    """The schema of each type of a response or request body."""

    def __init__(self, routes: Iterable[Route]) -> None:
        answers = [_answer_type(route) for route in routes]
        bodies = [route.body for route in routes if not isinstance(route.body, dict | None)]
        types = [each for each in (*answers, *bodies) if each is not None]
        found, self.components = msgspec.json.schema_components(
            types, ref_template="#/components/schemas/{name}"
        )
        self._schemas = {id(kind): schema for kind, schema in zip(types, found, strict=True)}
        self._types = types

    def of(self, kind: Any) -> Any:
        return self._schemas[id(kind)]


def _answer_type(route: Route) -> Any:
    """None for a response that is no JSON or has no described type."""
    kind = route.answer_type
    return None if kind in (Response, Stream) else kind


def _operation(route: Route, path: str, method: str, schemas: _Schemas) -> dict[str, Any]:
    operation = {
        "summary": route.summary,
        "operationId": _operation_id(route, path, method),
        "parameters": [*_path_parameters(route, path), *map(_described, _in_request(route))],
        "responses": _responses(route, schemas),
    }
    if method == "GET":
        return operation
    if isinstance(route.body, dict):
        operation["requestBody"] = route.body
    elif route.body is not None:
        operation["requestBody"] = json_body(schemas.of(route.body))
    return operation


def _operation_id(route: Route, path: str, method: str) -> str:
    words = [*path.replace("{", "").replace("}", "").split("/"), *route.handler.__name__.split("_")]
    name = "".join(word[:1].upper() + word[1:] for word in words)
    return name if len(route.methods) == 1 else method.lower() + name


def _path_parameters(route: Route, path: str) -> list[dict[str, Any]]:
    known = {each.name: each for each in route.parameters if each.place == "path"}
    unread = Parameter(argument="", name="", place="path", type=str, description=None)
    return [_described(known.get(name, unread)) | {"name": name} for name in path_parameters(path)]


def _in_request(route: Route) -> list[Parameter]:
    return [each for each in route.parameters if each.place != "path"]


def _described(parameter: Parameter) -> dict[str, Any]:
    schema = msgspec.json.schema(parameter.type)
    if parameter.default not in (None, inspect.Parameter.empty):
        schema["default"] = parameter.default
    described = {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.is_required,
        "schema": schema,
    }
    return described | ({"description": parameter.description} if parameter.description else {})


def _responses(route: Route, schemas: _Schemas) -> dict[str, Any]:
    kind = _answer_type(route)
    schema = {} if kind is None else schemas.of(kind)
    answer = {
        "description": _SUCCESS[route.status],
        "content": {route.media_type: {"schema": schema}},
    }
    others = {
        str(status): {"description": meaning, "content": {JSON: {"schema": _ERROR_SCHEMA}}}
        for status, meaning in route.other_statuses.items()
    }
    responses: dict[str, Any] = {str(route.status): answer} | others | _error_responses()
    for each in responses.values():
        each.setdefault("headers", {}).update(_security_headers())
    return responses


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

"""The OpenAPI document of the whole API."""

from collections.abc import Sequence
from typing import Any

import msgspec
from litestar import Litestar
from litestar.di import Provide
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Server

from stoker.api.submission import ARTIFACT_PART, GRAPH_PART, IDEMPOTENCY_KEY

_ERROR_SCHEMA = {
    "type": "object",
    "required": ["errors"],
    "properties": {"errors": {"type": "array", "items": {"type": "string"}}},
}
_ERRORS = {
    "400": "The request cannot be understood",
    "404": "There is no such thing",
    "409": "The job's state does not allow it",
    "413": "The request is too large",
    "503": "No master leads at the moment; ask again",
}


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
    document["paths"]["/jobs"]["post"].update(_submission())
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].update(_error_responses())
    return msgspec.json.encode(document)


def _no_services() -> None:
    return None


def _submission() -> dict[str, Any]:
    graph = {"type": "object", "description": "The job graph."}
    files = {
        "type": "array",
        "items": {"type": "string", "format": "binary"},
        "description": "The files that the graph names, recognized by their content.",
    }
    schema = {
        "type": "object",
        "required": [GRAPH_PART],
        "properties": {GRAPH_PART: graph, ARTIFACT_PART: files},
    }
    encoding = {GRAPH_PART: {"contentType": "application/json"}}
    return {
        "parameters": [
            {
                "name": IDEMPOTENCY_KEY,
                "in": "header",
                "required": False,
                "schema": {"type": "string"},
                "description": "A repeated submission with the same key gives the first answer.",
            }
        ],
        "requestBody": {
            "required": True,
            "content": {"multipart/form-data": {"schema": schema, "encoding": encoding}},
        },
    }


def _error_responses() -> dict[str, Any]:
    return {
        status: {
            "description": meaning,
            "content": {"application/json": {"schema": _ERROR_SCHEMA}},
        }
        for status, meaning in _ERRORS.items()
    }

"""Request bodies in the OpenAPI document.

Handlers read bodies themselves, since Flink's clients send one with every request: unknown fields
are ignored, and a missing body is an empty object.
"""

from typing import Any

from stoker.api.jobs import ARTIFACT_PART, GRAPH_PART

Body = dict[str, Any]

TEXT = {"type": "string"}
FLAG = {"type": "boolean"}
WHOLE_NUMBER = {"type": "integer"}
TRIGGER_ID = {"type": "string", "pattern": "^[0-9a-fA-F]{32}$"}
FILE = {"type": "string", "format": "binary"}


def json_object(**properties: Any) -> Body:
    """A JSON object with these optional fields. An underscore in a name stands for a hyphen."""
    named = {name.replace("_", "-"): schema for name, schema in properties.items()}
    return json_body({"type": "object", "properties": named})


def json_body(schema: Any) -> Body:
    return {"required": False, "content": {"application/json": {"schema": schema}}}


def multipart(required: str, **parts: Any) -> Body:
    schema = {"type": "object", "required": [required], "properties": parts}
    return {"required": True, "content": {"multipart/form-data": {"schema": schema}}}


def submission() -> Body:
    """A job graph with the files that it names."""
    files = {
        "type": "array",
        "items": FILE,
        "description": "The files that the graph names, matched by their content.",
    }
    graph = {"type": "object", "description": "The job graph."}
    body = multipart(GRAPH_PART, **{GRAPH_PART: graph, ARTIFACT_PART: files})
    encoding = {GRAPH_PART: {"contentType": "application/json"}}
    body["content"]["multipart/form-data"]["encoding"] = encoding
    return body

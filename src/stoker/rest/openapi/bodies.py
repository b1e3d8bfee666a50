"""Request bodies as the OpenAPI document describes them.

Handlers read bodies by themselves, since Flink's clients send one with every request: fields that
are not known are ignored, and no body is an empty one.
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
    """A JSON object with these fields, all optional. An underscore in a name is a hyphen."""
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
        "description": "The files that the graph names, recognized by their content.",
    }
    graph = {"type": "object", "description": "The job graph."}
    body = multipart(GRAPH_PART, **{GRAPH_PART: graph, ARTIFACT_PART: files})
    encoding = {GRAPH_PART: {"contentType": "application/json"}}
    body["content"]["multipart/form-data"]["encoding"] = encoding
    return body

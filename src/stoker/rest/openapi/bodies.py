"""What the requests of the API may have as their body, for its document.

Handlers read bodies by themselves, since Flink's clients send one with every request: what is not
known is ignored, and none at all is an empty one.
"""

from typing import Any

import msgspec

from stoker.api.programs import ProgramRun
from stoker.api.submission import ARTIFACT_PART, GRAPH_PART
from stoker.api.vertices import VertexRequirements

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_WHOLE = {"type": "integer"}
_TRIGGER = {"type": "string", "pattern": "^[0-9a-fA-F]{32}$"}
_FILE = {"type": "string", "format": "binary"}


def request_bodies() -> dict[tuple[str, str], dict[str, Any]]:
    """By path and method."""
    run = _json(msgspec.json.schema(ProgramRun)["$defs"]["ProgramRun"])
    requirement = msgspec.json.schema_components([VertexRequirements])[1]
    bounds = requirement["ParallelismBounds"]
    vertex = {"type": "object", "required": ["parallelism"], "properties": {"parallelism": bounds}}
    savepoint = {"target-directory": _TEXT, "cancel-job": _FLAG, "triggerId": _TRIGGER}
    stop = {"targetDirectory": _TEXT, "drain": _FLAG, "triggerId": _TRIGGER}
    rescale = {"partitions": _WHOLE, "target-directory": _TEXT, "triggerId": _TRIGGER}
    checkpoint = {
        "checkpointType": {"enum": ["CONFIGURED", "FULL", "INCREMENTAL"]},
        "triggerId": _TRIGGER,
    }
    return {
        ("/jobs", "post"): _submission(),
        ("/jobs/{jobid}/upgrade", "post"): _submission(),
        ("/jars/upload", "post"): _multipart({"jarfile": _FILE}, "jarfile"),
        ("/jars/{jarid}/run", "post"): run,
        ("/jars/{jarid}/run-application", "post"): run,
        ("/jars/{jarid}/plan", "post"): run,
        ("/jobs/{jobid}/savepoints", "post"): _object(savepoint),
        ("/jobs/{jobid}/stop", "post"): _object(stop),
        ("/jobs/{jobid}/checkpoints", "post"): _object(checkpoint),
        ("/jobs/{jobid}/rescale", "post"): _object(rescale),
        ("/jobs/{jobid}/clientHeartbeat", "patch"): _object({"expiredTimestamp": _WHOLE}),
        ("/jobs/{jobid}/resource-requirements", "put"): _json(
            {"type": "object", "additionalProperties": vertex}
        ),
        ("/savepoint-disposal", "post"): _object({"savepoint-path": _TEXT, "triggerId": _TRIGGER}),
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return _json({"type": "object", "properties": properties})


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"required": False, "content": {"application/json": {"schema": schema}}}


def _submission() -> dict[str, Any]:
    graph = {"type": "object", "description": "The job graph."}
    files = {
        "type": "array",
        "items": _FILE,
        "description": "The files that the graph names, recognized by their content.",
    }
    body = _multipart({GRAPH_PART: graph, ARTIFACT_PART: files}, GRAPH_PART)
    encoding = {GRAPH_PART: {"contentType": "application/json"}}
    body["content"]["multipart/form-data"]["encoding"] = encoding
    return body


def _multipart(properties: dict[str, Any], needed: str) -> dict[str, Any]:
    schema = {"type": "object", "required": [needed], "properties": properties}
    return {"required": True, "content": {"multipart/form-data": {"schema": schema}}}

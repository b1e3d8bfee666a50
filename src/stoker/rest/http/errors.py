"""From an error to the answer that a client gets."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from litestar import MediaType, Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.types import Scope, Send

from stoker.api.shape import RETRY_AFTER, Errors
from stoker.core.errors import Fenced, RemoteError, StokerError
from stoker.core.ids import Ids

log = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 1
"""A new leader is usually there by then."""


@dataclass(frozen=True, kw_only=True)
class ErrorAnswer:
    status: int
    messages: list[str]
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> Errors:
        return Errors(errors=self.messages)


def not_found(method: str, path: str) -> ErrorAnswer:
    """A wrong method is answered like an unknown path, as Flink does."""
    return ErrorAnswer(
        status=404, messages=[f"Not found: {method} {path}; /openapi.json lists what there is"]
    )


def unavailable(reason: str) -> ErrorAnswer:
    return ErrorAnswer(
        status=503, messages=[reason], headers={RETRY_AFTER: str(RETRY_AFTER_SECONDS)}
    )


def answer_to(error: StokerError) -> ErrorAnswer | None:
    """None for what nobody foresaw, which is told by an error id only."""
    # A call to a leader that has just been replaced: the next attempt finds the new one.
    if isinstance(error, Fenced) or error.status == 503:
        return unavailable(error.message)
    if isinstance(error, RemoteError):
        return None
    return ErrorAnswer(status=error.status, messages=error.facts.get("faults") or [error.message])


def answer_to_http(error: HTTPException, method: str, path: str) -> ErrorAnswer:
    if error.status_code in (404, 405):
        return not_found(method, path)
    if isinstance(error, ValidationException) and isinstance(error.extra, list):
        return ErrorAnswer(status=400, messages=[_fault(each) for each in error.extra])
    return ErrorAnswer(status=error.status_code, messages=[error.detail])


def _fault(fault: Any) -> str:
    if not isinstance(fault, dict):
        return str(fault)
    return f"parameter {_as_sent(str(fault.get('key')))}: {fault.get('message')}"


def _as_sent(name: str) -> str:
    """Parameters are written in camel case by clients and with underscores in handlers."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


AnyRequest = Request[Any, Any, Any]
Handle = Callable[[AnyRequest, Any], Response[Errors]]


def answer_to_any(error: Exception, method: str, path: str, ids: Ids) -> ErrorAnswer:
    """Of one that nobody foresaw the log tells more, under an id."""
    if isinstance(error, HTTPException):
        return answer_to_http(error, method, path)
    foreseen = answer_to(error) if isinstance(error, StokerError) else None
    if foreseen is not None:
        return foreseen
    error_id = ids.nonce()[:12]
    log.error("error %s in %s %s", error_id, method, path, exc_info=error)
    message = f"internal error {error_id}; the master's log tells more under this id"
    return ErrorAnswer(status=500, messages=[message])


def error_handlers(ids_of: Callable[[Scope], Ids]) -> dict[int | type[Exception], Handle]:
    def answer(request: AnyRequest, error: Exception) -> Response[Errors]:
        return _response(
            answer_to_any(error, request.method, request.scope["path"], ids_of(request.scope))
        )

    return {StokerError: answer, HTTPException: answer, Exception: answer}


def _response(answer: ErrorAnswer) -> Response[Errors]:
    return Response(
        answer.body,
        status_code=answer.status,
        headers=answer.headers,
        media_type=MediaType.JSON,
    )


async def send_error(answer: ErrorAnswer, send: Send, *, more: bool = False) -> None:
    """Past the framework."""
    body = msgspec.json.encode(answer.body)
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    pairs = (headers | answer.headers).items()
    await send(
        {
            "type": "http.response.start",
            "status": answer.status,
            "headers": [(name.lower().encode(), value.encode()) for name, value in pairs],
        }
    )
    await send({"type": "http.response.body", "body": body, "more_body": more})

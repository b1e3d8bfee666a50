"""Translates errors to HTTP responses.

The message of a StokerError is written for users, so the client gets it. Any other error, in this
process or in the one that was asked (RemoteError), may quote secrets: the client gets only an id,
under which the master's log has the error.
"""

import logging
from dataclasses import dataclass, field

import msgspec

from stoker.api.shape import RETRY_AFTER, Errors
from stoker.core.errors import Fenced, RemoteError, StokerError
from stoker.core.ids import Ids
from stoker.rest.http.asgi import Response, Send

log = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 1
"""A new leader is usually elected by then."""


@dataclass(frozen=True, kw_only=True)
class ErrorAnswer:
    status: int
    messages: list[str]
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> Errors:
        return Errors(errors=self.messages)


def not_found(method: str, path: str) -> ErrorAnswer:
    """Also the answer to a wrong method, as in Flink."""
    return ErrorAnswer(
        status=404, messages=[f"Not found: {method} {path}; /openapi.json lists all operations"]
    )


def unavailable(reason: str) -> ErrorAnswer:
    return ErrorAnswer(
        status=503, messages=[reason], headers={RETRY_AFTER: str(RETRY_AFTER_SECONDS)}
    )


def answer_to(error: StokerError) -> ErrorAnswer | None:
    """None for an unforeseen error, of which the client gets only an id."""
    # Fenced: the call reached a leader that has just been replaced; the next one finds the new one.
    if isinstance(error, Fenced) or error.status == 503:
        return unavailable(error.message)
    if isinstance(error, RemoteError):
        return None
    messages = error.facts.get("faults") or [error.message]
    seconds = error.facts.get("retry_after_seconds")
    headers = {} if seconds is None else {RETRY_AFTER: str(seconds)}
    return ErrorAnswer(status=error.status, messages=messages, headers=headers)


def any_error_answer(error: Exception, method: str, path: str, ids: Ids) -> ErrorAnswer:
    """An unforeseen error is logged under an id, and the client gets the id."""
    foreseen = answer_to(error) if isinstance(error, StokerError) else None
    if foreseen is not None:
        return foreseen
    error_id = ids.nonce()[:12]
    # %r: a path or method of the client could otherwise begin a line of its own in the log.
    log.error("error %s in %r %r", error_id, method, path, exc_info=error)
    message = f"internal error {error_id}; the master's log has the details under this id"
    return ErrorAnswer(status=500, messages=[message])


def error_response(answer: ErrorAnswer) -> Response:
    """For a handler that has found the answer itself."""
    body = msgspec.json.encode(answer.body)
    return Response(body, status=answer.status, headers=answer.headers.items())


async def send_error(answer: ErrorAnswer, send: Send, *, more: bool = False) -> None:
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

"""Short ways to what is asked many times a second: past the framework, to the same answers.

The framework takes longer for a page of the list than all else that is done for it. Only the
plainest form of a request goes a short way; whatever is written in another way, or wrong, goes the
long one, and is understood or refused there. All of them have passed the border.
"""

import functools
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import msgspec
from litestar import Request
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from stoker.api.jobs import JobStatusAnswer
from stoker.core.errors import InvalidInput
from stoker.core.ids import JobId
from stoker.rest.error_answers import answer_to_any, send_error
from stoker.rest.job_query import MAX_LIMIT, JobQuery, parse_query
from stoker.rest.precedence import Precedence
from stoker.rest.services import RestServices, services_in
from stoker.rest.submission import accept_job

_encode = msgspec.json.Encoder().encode
_PLAIN_QUERY = re.compile(rb"[a-z]+=[A-Za-z0-9_,.-]+(&[a-z]+=[A-Za-z0-9_,.-]+)*")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_STATUS = re.compile(r"/jobs/([0-9a-f]{32})/status")
_LONGEST_QUERY = 200
"""Of those that are remembered."""
_PARAMETERS = frozenset({"state", "type", "name", "sort", "offset", "limit"})

Body = Sequence[bytes]
Way = Callable[[], Awaitable[tuple[int, Body]]]
"""Finds the answer: its status, and its body in pieces."""


class ShortWays:
    """An ASGI app before another one, to which it leaves what has no short way."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind: str = scope["type"]
        way = _way(cast("HTTPScope", scope), receive, send) if kind == "http" else None
        if way is None:
            await self._app(scope, receive, send)
            return
        try:
            status, body = await way()
        # The border of a request, as the framework has it too.
        except Exception as error:
            http, services = cast("HTTPScope", scope), services_in(scope)
            answer = answer_to_any(error, http["method"], http["path"], services.ids)
            await send_error(answer, send)
        else:
            await answer_in_pieces(status, body, send, services_in(scope).looks.precedence)


async def answer_in_pieces(status: int, body: Body, send: Send, precedence: Precedence) -> None:
    """A long body in pieces that all answers share: to put them together would copy megabytes."""
    length = str(sum(map(len, body))).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", length)]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    patience = precedence.patience()
    for piece in body[:-1]:
        await precedence.give_way(patience)
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": body[-1], "more_body": False})


def _way(scope: HTTPScope, receive: Receive, send: Send) -> Way | None:
    path, query, method = scope["path"], scope["query_string"], scope["method"]
    if method == "POST" and path == "/jobs" and not query:
        request: Request[Any, Any, Any] = Request(scope, receive, send)
        return functools.partial(_accepted, request, services_in(scope))
    if method != "GET":
        return None
    if path == "/jobs/overview":
        wanted = _query(query) if len(query) <= _LONGEST_QUERY else None
        if wanted is None:
            return None
        return functools.partial(_overview, wanted, services_in(scope))
    if path == "/jobs" and not query:
        return functools.partial(_ids, services_in(scope))
    if not query and (found := _STATUS.fullmatch(path)):
        return functools.partial(_status, JobId(found[1]), services_in(scope))
    return None


async def _overview(query: JobQuery, services: RestServices) -> tuple[int, Body]:
    return 200, (await services.look()).body(query)


async def _ids(services: RestServices) -> tuple[int, Body]:
    return 200, (await services.look()).ids()


async def _status(job_id: JobId, services: RestServices) -> tuple[int, Body]:
    dispatcher = await services.dispatcher()
    return 200, [_encode(JobStatusAnswer(status=await dispatcher.job_status(job_id)))]


async def _accepted(request: Request[Any, Any, Any], services: RestServices) -> tuple[int, Body]:
    return 202, [_encode(await accept_job(request, services))]


@functools.lru_cache(maxsize=256)
def _query(text: bytes) -> JobQuery | None:
    """None when it is not written plainly, or means nothing."""
    if not text:
        return JobQuery()
    if not _PLAIN_QUERY.fullmatch(text):
        return None
    pairs = [each.partition("=")[::2] for each in text.decode().split("&")]
    asked: dict[str, str] = dict(pairs)
    if len(asked) < len(pairs) or not asked.keys() <= _PARAMETERS:
        return None
    numbers = [asked[name] for name in ("offset", "limit") if name in asked]
    if not all(_NUMBER.fullmatch(number) for number in numbers):
        return None
    if int(asked.get("limit", 0)) > MAX_LIMIT:
        return None
    try:
        return parse_query(
            state=asked.get("state"),
            type_=asked.get("type"),
            name=asked.get("name"),
            sort=asked.get("sort"),
            offset=int(asked["offset"]) if "offset" in asked else None,
            limit=int(asked["limit"]) if "limit" in asked else None,
        )
    except InvalidInput:
        return None

"""Short ways to what is asked many times a second: past the framework, to the same answers.

The framework takes longer for a page of the list than all else that is done for it. Only the
plainest form of a request goes a short way; whatever is written in another way, or wrong, goes the
long one, and is understood or refused there. All of them have passed the border.
"""

import asyncio
import functools
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from litestar import Request
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from stoker.api.jobs import JobStatusAnswer
from stoker.core.errors import InvalidInput
from stoker.core.ids import JobId
from stoker.core.states import JobStatus
from stoker.rest.http.errors import answer_to_any, send_error
from stoker.rest.job_list.query import MAX_LIMIT, JobQuery, parse_query
from stoker.rest.requests.parameters import parse_statuses
from stoker.rest.requests.submission import accept_job
from stoker.rest.services import RestServices, services_in

_encode = msgspec.json.Encoder().encode
_PLAIN_QUERY = re.compile(rb"[a-z]+=[A-Za-z0-9_,.-]+(&[a-z]+=[A-Za-z0-9_,.-]+)*")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_STATUS = re.compile(r"/jobs/([0-9a-f]{32})/status")
_PLAIN_WAIT = re.compile(rb"wait=([0-9]{1,4}(?:\.[0-9]{1,3})?)&known=([A-Z]+(?:%2C[A-Z]+){0,20})")
_LONGEST_QUERY = 200
"""Of those that are remembered."""
_PARAMETERS = frozenset({"state", "type", "name", "sort", "offset", "limit"})


@dataclass(frozen=True)
class Answer:
    status: int
    body: Sequence[bytes]
    """In pieces, which other answers may share."""


@dataclass(frozen=True)
class Wait:
    seconds: float
    known: tuple[JobStatus, ...]
    """The status that is waited for is none of these."""


Way = Callable[[], Awaitable[Answer]]
"""Finds the answer."""


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
            found = await way()
        # The border of a request, as the framework has it too.
        except Exception as error:
            http, services = cast("HTTPScope", scope), services_in(scope)
            answer = answer_to_any(error, http["method"], http["path"], services.ids)
            await send_error(answer, send)
        else:
            await answer_in_pieces(found, send)


async def answer_in_pieces(answer: Answer, send: Send) -> None:
    """A long body in pieces that all answers share: to put them together would copy megabytes."""
    length = str(sum(map(len, answer.body))).encode()
    told = [(b"content-type", b"application/json"), (b"content-length", length)]
    await send({"type": "http.response.start", "status": answer.status, "headers": told})
    for piece in answer.body[:-1]:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        # Whoever comes meanwhile is heard now, not when megabytes have been handed to the kernel.
        await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": answer.body[-1], "more_body": False})


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
    if found := _STATUS.fullmatch(path):
        job_id = JobId(found[1])
        if not query:
            return functools.partial(_status, job_id, services_in(scope))
        if (wait := _wait(query)) is not None:
            return functools.partial(_later_status, job_id, wait, services_in(scope))
    return None


async def _overview(query: JobQuery, services: RestServices) -> Answer:
    return Answer(200, (await services.look()).body(query))


async def _ids(services: RestServices) -> Answer:
    return Answer(200, (await services.look()).ids())


async def _status(job_id: JobId, services: RestServices) -> Answer:
    dispatcher = await services.dispatcher()
    status = await dispatcher.job_status(job_id)
    return Answer(200, [_encode(JobStatusAnswer(status=status))])


async def _later_status(job_id: JobId, wait: Wait, services: RestServices) -> Answer:
    seconds = min(wait.seconds, services.options.max_wait.total_seconds())
    dispatcher = await services.dispatcher()
    status = await dispatcher.wait_for_change(job_id, wait.known, seconds)
    return Answer(200, [_encode(JobStatusAnswer(status=status))])


async def _accepted(request: Request[Any, Any, Any], services: RestServices) -> Answer:
    return Answer(202, [_encode(await accept_job(request, services))])


@functools.lru_cache(maxsize=256)
def _wait(text: bytes) -> Wait | None:
    """None when it is not written as our own client does, or means nothing."""
    found = _PLAIN_WAIT.fullmatch(text)
    if found is None:
        return None
    seconds, known = (part.decode() for part in found.groups())
    try:
        return Wait(float(seconds), parse_statuses(known.replace("%2C", ",")))
    except InvalidInput:
        return None


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

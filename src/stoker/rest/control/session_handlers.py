"""Logging in to the web page, and out of it.

A person who opens the page gives a token once, and the page does not keep it: the answer sets a
cookie that no code of the page can read, and that ends when the page is not used for a while.
"""

import msgspec

from stoker.api.control import SessionAnswer, SessionRequest
from stoker.rest.http.access import Requester
from stoker.rest.http.asgi import Request, Response
from stoker.rest.http.errors import ErrorAnswer, error_response
from stoker.rest.http.routing import delete, get, post
from stoker.rest.requests.parameters import read_body
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission, allows

_PATH = "/session"


@get(
    _PATH,
    needs=Permission.OPEN,
    summary="Who the caller is and what it may do; whether a token is wanted",
)
async def show_session(request: Request, services: RestServices) -> SessionAnswer:
    return _describe(_caller(request, services), services)


@post(
    _PATH,
    needs=Permission.OPEN,
    summary="Log in to the web page: a cookie for the browser instead of a token",
    answer=SessionAnswer,
    body=SessionRequest,
    other_statuses={401: "the token is wrong, was revoked or has expired"},
)
async def log_in(request: Request, services: RestServices) -> Response:
    wanted = await read_body(request, SessionRequest, SessionRequest)
    if not services.access.asks_for_tokens:
        return _answer(_caller(request, services), services)
    caller = services.access.log_in(wanted.token.strip())
    if isinstance(caller, ErrorAnswer):
        return error_response(caller)
    assert caller.session is not None
    cookie = services.page_sessions.cookie_of(
        caller.session, services.clock(), is_secure=request.is_secure
    )
    return _answer(caller, services, cookie)


@delete(_PATH, needs=Permission.OPEN, summary="Log out of the web page", answer=SessionAnswer)
async def log_out(request: Request, services: RestServices) -> Response:
    if not services.access.asks_for_tokens:
        return _answer(_caller(request, services), services)
    removed = services.page_sessions.removed_cookie(is_secure=request.is_secure)
    return _answer(None, services, removed)


def _caller(request: Request, services: RestServices) -> Requester | None:
    """None for a caller who has to log in first."""
    session = services.page_sessions.find(
        request.headers.get("cookie"), services.clock(), is_secure=request.is_secure
    )
    found = services.access.identify(
        request.headers.get("authorization"), session, request.certificate
    )
    return None if isinstance(found, ErrorAnswer) else found


def _answer(caller: Requester | None, services: RestServices, cookie: str = "") -> Response:
    headers = [("set-cookie", cookie)] if cookie else []
    return Response(msgspec.json.encode(_describe(caller, services)), headers=headers)


def _describe(caller: Requester | None, services: RestServices) -> SessionAnswer:
    session = None if caller is None else caller.session
    role = None if caller is None else caller.role
    return SessionAnswer(
        token_wanted=services.access.asks_for_tokens,
        name=None if caller is None else caller.name,
        role=role,
        until=None if session is None else session.until,
        allowed=[] if role is None else [each for each in Permission if allows(role, each)],
        version=services.version,
        now=services.clock(),
        epoch=services.epoch(),
    )


SESSION_HANDLERS = (show_session, log_in, log_out)

"""The middleware around the router: every request passes these checks before it is routed.

A master is reachable by browsers, by other users of its machine and by clients of any version, and
a standby is as good an address as the leader. So a request is checked before anything is read from
its body, and it is answered by the leader wherever it arrives.

The order matters:
1. The target of the request is found. All that follows looks at the target, never at the path as
   the client wrote it: a check that read the path in another way than the router could be escaped.
2. Preflight requests of allowed web pages are answered; browsers send them without a token.
3. The request must come from a page that may use this server, within the caller's rate, with a
   token whose role has the permission that the target needs, and from a client of a version that
   works with this one.
4. An upload must fit in size and find a free place; only then is its body received.
5. A standby forwards to the leader, except for questions about operations that were triggered at
   this master. A forwarded request is never forwarded again.
6. The master that answers checks whether the caller may see and change the job that the path names.

A change and a refusal are recorded in the audit log before the response begins.

Invariant: every response, also a refusal, carries the security headers and the server's version,
and a request that is cancelled because the server closes still gets an answer that says so, unless
its response has begun.
"""

import asyncio
import contextlib
import hmac
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from stoker.api.versions import CLIENT_HEADER, SERVER_HEADER, explain_refused_client, version_header
from stoker.core.errors import Unavailable
from stoker.metrics.catalogue import REST_DURATION, REST_REQUESTS
from stoker.metrics.labels import OTHER
from stoker.rest.http.access import ANYONE, ConcurrencyLimit, RateLimit, Requester
from stoker.rest.http.asgi import CALLER, CERTIFICATE, Message, Receive, Scope, Send
from stoker.rest.http.auditing import FORWARDED_TO_LEADER, AuditedSend
from stoker.rest.http.compression import CompressingSend, Compressor, accepts_gzip
from stoker.rest.http.errors import ErrorAnswer, answer_to, send_error, unavailable
from stoker.rest.http.origin import cors_headers, find_origin_refusal, is_allowed, preflight_headers
from stoker.rest.http.ownership import find_owner_refusal
from stoker.rest.http.page_access import find_page_refusal
from stoker.rest.http.routing import Router, Target
from stoker.rest.requests.uploads import request_too_large
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission
from stoker.web.pages import PAGES

if TYPE_CHECKING:
    from stoker.rest.http.forwarding import Forwarder

LOCAL_PATHS = frozenset({"/audit", "/config", "/session", "/metrics", "/openapi.json", *PAGES})
"""Paths that every master answers itself, leader or standby."""
OPERATION_PATHS = re.compile(
    r"(?:/jobs/[^/]+/savepoints|/jobs/[^/]+/checkpoints|/savepoint-disposal)/([^/]+)"
)
"""Paths of the status of an operation; they end with its trigger id."""
UPLOAD_PATHS = re.compile(r"/jobs|/jars/upload|/jobs/[^/]+/upgrade")
FORWARDED = b"x-stoker-forwarded"
"""Marks a forwarded request; prevents a forwarding loop between standbys. The value is the address
of the original client."""
FORWARDING_PROOF = b"x-stoker-forwarding-proof"
"""Shows that a master forwarded the request; see `RestServices.forwarding_proof`."""
CERTIFICATE_NAME = b"x-stoker-certificate"
"""Common name of the certificate that the client of a forwarded request has shown, quoted."""
_PREPARE_AFTER_SECONDS = 1.0
"""A master that leads by then may never need to forward."""
_CLIENT_HEADER = CLIENT_HEADER.lower().encode()
_LINGER_SECONDS = 10.0
"""How long the server keeps reading a refused upload, so that its client sees the answer."""
_CLOSING = "this master is shutting down; try again"

SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)


class RestMiddleware:
    """The ASGI app: the router, and what surrounds it."""

    def __init__(self, router: Router, services: RestServices) -> None:
        self._router = router
        self._services = services
        self._forwarder: Forwarder | None = None
        self._waiting: set[asyncio.Task[None] | None] = set()
        self._closing = False
        version = (SERVER_HEADER.lower().encode(), version_header(services.version).encode())
        self._headers = (*SECURITY_HEADERS, version)
        self._access = services.access
        self._rate = RateLimit(services.options.max_requests_per_second)
        # Each upload keeps its files on the master's disk while it lasts.
        self._uploads = ConcurrencyLimit(services.options.max_concurrent_uploads, "uploads")
        self._streams = ConcurrencyLimit(
            services.options.max_event_streams,
            "streams of events and logs",
            per_caller=services.options.max_event_streams_per_caller,
        )
        self._compressor = Compressor()
        metrics = services.metrics.process
        self._now = metrics.now
        self._durations = metrics.histogram(REST_DURATION)
        self._requests = metrics.counter(REST_REQUESTS)

    async def prepare_to_close(self) -> None:
        """End what would outlast the server, which still listens meanwhile.

        Long polls and event streams end now, and new ones are refused: those whose response has not
        begun get 503, the others end with their connection. Operations have `shutdown_timeout` to
        end and to be read by their clients; new ones are refused.
        """
        self._closing = True
        for task in self._waiting:
            if task is not None:
                task.cancel()
        await self._services.operations.close(self._services.options.shutdown_timeout)

    async def close(self) -> None:
        """For a server that has answered all requests."""
        if self._forwarder is not None:
            await self._forwarder.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope, receive, _ResponseSend(send, self._headers))

    async def _answer(self, scope: Scope, receive: Receive, send: "_ResponseSend") -> None:
        target = self._router.find(scope["method"], scope["path"])
        waits = _is_stream(scope, target) or b"wait=" in scope["query_string"]
        if waits and self._closing:
            await send_error(unavailable(_CLOSING), send)
            return
        task = asyncio.current_task()
        if waits:
            self._waiting.add(task)
        began = self._now()
        try:
            await self._route(scope, target, receive, send)
        except asyncio.CancelledError:
            # Only a closing server cancels requests. The client tries again, at another master.
            if send.started:
                raise
            await send_error(unavailable(_CLOSING), send)
        finally:
            self._waiting.discard(task)
            self._measure(scope, target, send.status, None if waits else began)

    def _measure(self, scope: Scope, target: Target, status: int, began: float | None) -> None:
        """Count the request; only one that neither waits nor streams has a duration that counts."""
        known = (scope["method"], target.route.paths[0]) if target.route else (OTHER, OTHER)
        self._requests.increment(*known, str(status))
        if began is not None:
            self._durations.observe(self._now() - began, *known)

    async def _route(self, scope: Scope, target: Target, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        self._set_certificate(scope, headers)
        origin = _text(headers.get(b"origin"))
        send = _with_headers(send, cors_headers(origin, self._services.options))
        if accepts_gzip(headers.get(b"accept-encoding")):
            send = CompressingSend(send, self._compressor)
        if (audit := self._services.audit) is None:
            await self._respond(scope, headers, target, receive, send)
            return
        audited = AuditedSend(
            send,
            audit,
            scope=scope,
            target=target,
            address=self._address_of(scope, headers),
            clock=self._services.clock,
        )
        try:
            await self._respond(scope, headers, target, receive, audited)
        finally:
            if audited.is_cut_off:
                await asyncio.shield(audited.record_cut_off())

    async def _respond(
        self,
        scope: Scope,
        headers: dict[bytes, bytes],
        target: Target,
        receive: Receive,
        send: Send,
    ) -> None:
        origin = _text(headers.get(b"origin"))
        # Preflight requests have no token; the answer reveals nothing about the cluster.
        if scope["method"] == "OPTIONS" and origin and is_allowed(origin, self._services.options):
            await _answer_preflight(headers.get(b"access-control-request-headers"), send)
            return
        refusal = self._find_refusal(scope, headers, target)
        if refusal is not None:
            await send_error(refusal, send)
            return
        send = _with_headers(send, self._renewed_cookie(scope))
        if _is_upload(headers):
            await self._upload(scope, headers, target, receive, send)
        elif _is_stream(scope, target):
            await self._serve_within(self._streams, scope, headers, target, receive, send)
        else:
            await self._serve_or_forward(scope, headers, target, receive, send)

    async def _upload(
        self,
        scope: Scope,
        headers: dict[bytes, bytes],
        target: Target,
        receive: Receive,
        send: Send,
    ) -> None:
        if _declared_length(headers) > self._services.options.max_content_length:
            refusal = answer_to(request_too_large(self._services.options))
            assert refusal is not None
            await _refuse_during_upload(refusal, receive, send)
            return
        await self._serve_within(self._uploads, scope, headers, target, receive, send)

    async def _serve_within(
        self,
        limit: ConcurrencyLimit,
        scope: Scope,
        headers: dict[bytes, bytes],
        target: Target,
        receive: Receive,
        send: Send,
    ) -> None:
        caller = self._counted_as(scope, headers, scope[CALLER])
        refused = limit.begin(caller)
        if refused is not None:
            await send_error(refused, send)
            return
        try:
            await self._serve_or_forward(scope, headers, target, receive, send)
        finally:
            limit.end(caller)

    async def _serve_or_forward(
        self,
        scope: Scope,
        headers: dict[bytes, bytes],
        target: Target,
        receive: Receive,
        send: Send,
    ) -> None:
        path = target.path
        if path in LOCAL_PATHS or self._services.leads() or self._knows_operation(path):
            refusal = await find_owner_refusal(scope[CALLER], target, self._services.dispatcher)
            if refusal is not None:
                await send_error(refusal, send)
            else:
                await self._router.respond(target, self._services, scope, receive, send)
        else:
            await self._forward_to_leader(scope, headers, receive, send)

    def _knows_operation(self, path: str) -> bool:
        """Whether the path asks for an operation that was triggered here: no other master knows it.

        So a client learns the outcome although another master leads by now.
        """
        asked = OPERATION_PATHS.fullmatch(path)
        return asked is not None and self._services.operations.knows(asked[1])

    def _find_refusal(
        self, scope: Scope, headers: dict[bytes, bytes], target: Target
    ) -> ErrorAnswer | None:
        is_open = target.needs is Permission.OPEN
        foreign_page = find_origin_refusal(
            _text(headers.get(b"host")),
            _text(headers.get(b"origin")),
            # A link may lead to the description of the API.
            None if is_open else _text(headers.get(b"sec-fetch-site")),
            self._services.options,
        )
        if foreign_page is not None:
            return ErrorAnswer(status=403, messages=[foreign_page])
        caller = ANYONE if is_open else self._identify(scope, headers)
        key = self._counted_as(scope, headers, caller)
        too_often = self._rate.refusal(key, asyncio.get_running_loop().time())
        if too_often is not None:
            return too_often
        if isinstance(caller, ErrorAnswer):
            return caller
        scope[CALLER] = caller
        denied = caller.refusal(target.needs)
        if denied is not None:
            return denied
        if caller.session is not None:
            reason = find_page_refusal(scope["method"], target.needs, headers)
            if reason is not None:
                return ErrorAnswer(status=403, messages=[reason])
        if _is_upload(headers) and not UPLOAD_PATHS.fullmatch(target.path):
            return ErrorAnswer(status=400, messages=[f"{target.path} accepts no files"])
        too_old = explain_refused_client(_text(headers.get(_CLIENT_HEADER)), self._services.version)
        if too_old is not None:
            return ErrorAnswer(status=400, messages=[too_old])
        return None

    def _renewed_cookie(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """A header that prolongs the session of a page that is in use."""
        caller: Requester = scope[CALLER]
        now = self._services.clock()
        if caller.session is None or not caller.session.is_half_over(now):
            return []
        renewed = self._access.renew(caller.session)
        if renewed is None:
            return []
        cookie = self._services.page_sessions.cookie_of(renewed, now, is_secure=_is_secure(scope))
        return [(b"set-cookie", cookie.encode())]

    def _identify(self, scope: Scope, headers: dict[bytes, bytes]) -> Requester | ErrorAnswer:
        """The caller by the token of the request, or by the cookie of the web page."""
        services = self._services
        session = services.page_sessions.find(
            _text(headers.get(b"cookie")), services.clock(), is_secure=_is_secure(scope)
        )
        authorization = _text(headers.get(b"authorization"))
        return self._access.identify(authorization, session, scope.get(CERTIFICATE))

    def _counted_as(
        self, scope: Scope, headers: dict[bytes, bytes], caller: Requester | ErrorAnswer
    ) -> str:
        """Whose requests and streams are counted: of a token or certificate, or of an address."""
        if isinstance(caller, Requester) and caller.is_identified:
            return f"the {caller.credential} {caller.name}"
        return self._address_of(scope, headers)

    def _set_certificate(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Take the certificate of a forwarded request from the master that was shown it.

        Anybody else could name any.
        """
        if FORWARDED in headers and self._is_from_master(headers):
            name = _text(headers.get(CERTIFICATE_NAME))
            scope[CERTIFICATE] = None if name is None else unquote(name)

    def _address_of(self, scope: Scope, headers: dict[bytes, bytes]) -> str:
        client = scope["client"]
        address: str = client[0] if client else "unknown"
        original = _text(headers.get(FORWARDED))
        if original is None or not self._is_from_master(headers):
            return address
        return f"{original} through {address}"

    def _is_from_master(self, headers: dict[bytes, bytes]) -> bool:
        """Whether a master forwarded the request. Anybody else could name any address."""
        expected = self._services.forwarding_proof()
        given = headers.get(FORWARDING_PROOF)
        return (
            expected is not None
            and given is not None
            and hmac.compare_digest(expected.encode(), given)
        )

    async def _forward_to_leader(
        self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send
    ) -> None:
        url = self._services.forwarding_url()
        if url is None or FORWARDED in headers:
            await send_error(unavailable("no master leads at the moment; try again"), send)
            return
        scope[FORWARDED_TO_LEADER] = True
        try:
            await self._open_forwarder().forward(url, scope, receive, send)
        except Unavailable as error:
            await send_error(unavailable(error.message), send)

    async def prepare_to_forward(self) -> None:
        """Loads the HTTP client of a standby in advance.

        The first request to forward often comes just when the leader has died, and loading the
        client takes half a second.
        """
        await asyncio.sleep(_PREPARE_AFTER_SECONDS)
        if self._forwarder is None and not self._services.leads():
            forwarder = await asyncio.to_thread(self._make_forwarder)
            self._forwarder = self._forwarder or forwarder

    def _open_forwarder(self) -> "Forwarder":
        if self._forwarder is None:
            self._forwarder = self._make_forwarder()
        return self._forwarder

    def _make_forwarder(self) -> "Forwarder":
        # The HTTP client is large, and a master that leads from the start never needs it.
        from stoker.rest.http.forwarding import Forwarder  # noqa: PLC0415

        services = self._services
        return Forwarder(services.forwarding_url, services.forwarding_proof, services.trust)


def _declared_length(headers: dict[bytes, bytes]) -> int:
    """The declared length of the body; 0 for a body that comes in chunks."""
    text = headers.get(b"content-length", b"")
    return int(text[:20]) if text.isdigit() else 0


def _is_upload(headers: dict[bytes, bytes]) -> bool:
    return headers.get(b"content-type", b"").lower().startswith(b"multipart/")


def _is_stream(scope: Scope, target: Target) -> bool:
    """Whether the response goes on for as long as its client reads."""
    return target.path.endswith("/events") or b"follow=" in scope["query_string"]


def _is_secure(scope: Scope) -> bool:
    return bool(scope.get("scheme") == "https")


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")


class _ResponseSend:
    """A `send` that adds the headers of every response and knows whether the response has begun."""

    def __init__(self, send: Send, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self._send = send
        self._headers = headers
        self.started = False
        self.status = 0
        """0 until the response has begun."""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            present = {name for name, _ in message["headers"]}
            added = [each for each in self._headers if each[0] not in present]
            message["headers"] = [*message["headers"], *added]
        await self._send(message)


def _with_headers(send: Send, headers: list[tuple[bytes, bytes]]) -> Send:
    if not headers:
        return send

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *headers]
        await send(message)

    return send_with_headers


async def _answer_preflight(requested_headers: bytes | None, send: Send) -> None:
    headers = [*preflight_headers(requested_headers), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _refuse_during_upload(answer: ErrorAnswer, receive: Receive, send: Send) -> None:
    """Answers at once, then keeps reading: a client that is cut off while it sends may miss it."""
    await send_error(answer, send, more=True)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while (message := await receive())["type"] == "http.request":
                if not message["more_body"]:
                    break
    await send({"type": "http.response.body", "body": b"", "more_body": False})

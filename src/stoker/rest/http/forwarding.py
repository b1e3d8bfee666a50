"""Forwards requests from a standby to the leader.

A client may know any master, and the leader changes, so a standby passes each request on as it is,
streamed in both directions. A request may take long (a large file, a long poll), but a client must
not wait for a leader that is frozen or gone. Therefore a forwarded request has no timeout of its
own until its response begins: a pulse of the leader ends it when the leader stops answering.

Once the first byte of the response has passed, a failure can only break the connection; before
that, the client gets 503 and can try again.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager

import httpx

from stoker.core.errors import RecipientUnreachable
from stoker.rest.http.asgi import Receive, Scope, Send
from stoker.rest.http.middleware import FORWARDED

CHECK_LEADER_SECONDS = 0.25
PING_INTERVAL_SECONDS = 1.0
PING_TIMEOUT_SECONDS = 3.0
"""A process that takes longer for a small request counts as frozen."""
_PING_PATH = "/v1/config"


class LeaderPulse:
    """Pings one master while requests to it are in progress, once for all of them.

    When a ping fails or the leader changes, every request that waits for this master gives up.
    """

    def __init__(
        self, url: str, http: httpx.AsyncClient, leader_url: Callable[[], str | None]
    ) -> None:
        self.url = url
        self._http = http
        self._leader_url = leader_url
        self._waiting = 0
        self._task: asyncio.Task[str] | None = None

    @asynccontextmanager
    async def watch(self) -> AsyncIterator["asyncio.Task[str]"]:
        """Yields a task that ends when waiting is futile; its result is the reason."""
        if self._task is None:
            self._task = asyncio.create_task(self._ping_until_silent(), name=f"pulse {self.url}")
        task = self._task
        self._waiting += 1
        try:
            yield task
        finally:
            self._waiting -= 1
            if not self._waiting:
                # Forgotten before it has ended, so that the next request starts another one.
                self._task = None
                task.cancel()
                await asyncio.wait({task})

    async def _ping_until_silent(self) -> str:
        loop = asyncio.get_running_loop()
        while True:
            ask_at = loop.time() + PING_INTERVAL_SECONDS
            while loop.time() < ask_at:
                if self._leader_url() != self.url:
                    return "no longer leads"
                await asyncio.sleep(CHECK_LEADER_SECONDS)
            if (silence := await self._ping()) is not None:
                return silence

    async def _ping(self) -> str | None:
        try:
            async with asyncio.timeout(PING_TIMEOUT_SECONDS):
                await self._http.get(self.url + _PING_PATH)
        except TimeoutError:
            return f"has been silent for {PING_TIMEOUT_SECONDS:g} s"
        except httpx.TransportError as error:
            return f"does not answer: {error!r}"
        return None


_CONNECT_SECONDS = 2.0
_CHUNK_TIMEOUT_SECONDS = 30.0
_HOP_BY_HOP_HEADERS = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_REPLACED_HEADERS = frozenset({b"host", b"origin", b"expect"})


class Forwarder:
    def __init__(
        self, leader_url: Callable[[], str | None], trust: ssl.SSLContext | None = None
    ) -> None:
        self._leader_url = leader_url
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            trust_env=False,
            verify=True if trust is None else trust,
        )
        self._pulse: LeaderPulse | None = None

    async def close(self) -> None:
        await self._client.aclose()

    async def forward(self, leader_url: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises RecipientUnreachable only before the response begins."""
        request = self._client.build_request(
            scope["method"],
            _url(leader_url, scope),
            headers=_request_headers(scope),
            content=_body(receive) if _has_body(scope) else None,
        )
        response = await self._answer(leader_url, request)
        async with aclosing(response):
            await send(
                {
                    "type": "http.response.start",
                    "status": response.status_code,
                    "headers": _without(response.headers.raw, _HOP_BY_HOP_HEADERS),
                }
            )
            chunks = response.aiter_raw()
            while (chunk := await _next_chunk(chunks)) is not None:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _answer(self, leader_url: str, request: httpx.Request) -> httpx.Response:
        async with self._pulse_for(leader_url).watch() as silence:
            answer = asyncio.create_task(self._client.send(request, stream=True), name="forwarded")
            try:
                await asyncio.wait({answer, silence}, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                await _abandon(answer)
                raise
            if not answer.done():
                await _abandon(answer)
                raise _unreachable(leader_url, silence.result())
            try:
                return answer.result()
            except httpx.TransportError as error:
                raise _unreachable(leader_url, f"does not answer: {error!r}") from error

    def _pulse_for(self, leader_url: str) -> LeaderPulse:
        if self._pulse is None or self._pulse.url != leader_url:
            self._pulse = LeaderPulse(leader_url, self._client, self._leader_url)
        return self._pulse


def _unreachable(leader_url: str, reason: str) -> RecipientUnreachable:
    return RecipientUnreachable(f"the leading master at {leader_url} {reason}; try again")


async def _abandon(answer: "asyncio.Task[httpx.Response]") -> None:
    """Cancels a request and releases its connection."""
    answer.cancel()
    await asyncio.wait({answer})
    if not answer.cancelled() and answer.exception() is None:
        await answer.result().aclose()


async def _next_chunk(chunks: AsyncIterator[bytes]) -> bytes | None:
    async with asyncio.timeout(_CHUNK_TIMEOUT_SECONDS):
        return await anext(chunks, None)


def _url(leader_url: str, scope: Scope) -> httpx.URL:
    target = scope["raw_path"] or scope["path"].encode()
    query = scope["query_string"]
    return httpx.URL(leader_url).copy_with(raw_path=target + (b"?" + query if query else b""))


def _request_headers(scope: Scope) -> list[tuple[bytes, bytes]]:
    kept = _without(scope["headers"], _HOP_BY_HOP_HEADERS | _REPLACED_HEADERS)
    client = scope["client"]
    return [*kept, (FORWARDED, (client[0] if client else "unknown").encode())]


def _without(
    headers: Iterable[tuple[bytes, bytes]], names: frozenset[bytes]
) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name.lower() not in names]


def _has_body(scope: Scope) -> bool:
    names = {name for name, value in scope["headers"] if value != b"0"}
    return bool(names & {b"content-length", b"transfer-encoding"})


async def _body(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise RecipientUnreachable("the client disconnected during its request")
        yield message["body"]
        if not message["more_body"]:
            return

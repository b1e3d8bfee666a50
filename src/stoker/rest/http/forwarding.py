"""Forwards requests from a standby to the leader.

A client may know any master, and the leader changes, so a standby passes each request on as it is,
streamed in both directions. A request may take long (a large file, a long poll, a log that is
followed), but a client must not wait for a leader that is frozen or gone. Therefore a forwarded
request has no timeout of its own: the standby pings the leader and waits as long as it answers.

Before the response begins, a failure is answered with 503, and the client can try again. Later it
can only break the connection.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack, aclosing, asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import httpx

from stoker.core.errors import RecipientUnreachable
from stoker.osproc.unix_socket import socket_in, usable_name
from stoker.rest.http.asgi import CERTIFICATE, Receive, Scope, Send
from stoker.rest.http.middleware import CERTIFICATE_NAME, FORWARDED, FORWARDING_PROOF

CHECK_LEADER_SECONDS = 0.25
PING_INTERVAL_SECONDS = 1.0
PING_TIMEOUT_SECONDS = 3.0
"""A process that takes longer for a small request counts as frozen."""
QUIET_SECONDS = 10.0
"""How long a response may pause before the standby asks whether the leader is still alive."""
_PING_PATH = "/v1/config"
_URL_BEHIND_SOCKET = "http://localhost"
"""The server's name in requests through a Unix domain socket."""


def describe_failure(error: httpx.TransportError) -> str:
    """What the master did, as the end of a sentence that begins with it."""
    if isinstance(error, httpx.TimeoutException):
        return "does not answer in time"
    if isinstance(error, httpx.ConnectError):
        # httpx says only this when the connection was refused.
        detail = str(error).replace("All connection attempts failed", "")
        return f"cannot be reached ({detail})" if detail else "refuses connections"
    return "closed the connection before it had answered"


async def _ping(http: httpx.AsyncClient, url: str) -> str | None:
    """Why this master counts as dead or frozen, or None if it answers."""
    try:
        async with asyncio.timeout(PING_TIMEOUT_SECONDS):
            await http.get(_base(url).copy_with(path=_PING_PATH))
    except TimeoutError:
        return f"has been silent for {PING_TIMEOUT_SECONDS:g} s"
    except httpx.TransportError as error:
        return describe_failure(error)
    return None


class LeaderProbe:
    """Pings one master while requests wait for its responses, once for all of them.

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
            self._task = asyncio.create_task(self._ping_until_silent(), name=f"probe {self.url}")
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
            if (silence := await _ping(self._http, self.url)) is not None:
                return silence


_CONNECT_SECONDS = 2.0
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
_REPLACED_HEADERS = frozenset(
    {b"host", b"origin", b"expect", b"sec-fetch-site", FORWARDING_PROOF, CERTIFICATE_NAME}
)
"""The standby has checked where the request comes from."""


class Forwarder:
    def __init__(
        self,
        leader_url: Callable[[], str | None],
        proof: Callable[[], str | None] = lambda: None,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        """`proof` shows the leader that a master forwards."""
        self._leader_url = leader_url
        self._proof = proof
        self._trust = trust
        self._socket_names = ExitStack()
        self._clients: dict[Path | None, httpx.AsyncClient] = {}
        """By the socket to which they connect; None for addresses with a host."""
        # Loading trusted certificates takes a while, and requests come when the leader has died.
        self._clients[None] = self._open_client(None)
        self._probe: LeaderProbe | None = None

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()
        self._socket_names.close()

    async def forward(self, leader_url: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises RecipientUnreachable only before the response begins."""
        try:
            client = self._client_for(leader_url)
        except OSError as error:
            raise _unreachable(leader_url, f"does not answer: {error}") from error
        request = client.build_request(
            scope["method"],
            _url(leader_url, scope),
            headers=_request_headers(scope, self._proof()),
            content=_body(receive) if _has_body(scope) else None,
        )
        response = await self._answer(leader_url, client, request)
        async with aclosing(response):
            await send(
                {
                    "type": "http.response.start",
                    "status": response.status_code,
                    "headers": _without(response.headers.raw, _HOP_BY_HOP_HEADERS),
                }
            )
            chunks = response.aiter_raw()
            while (chunk := await self._next_chunk(chunks, client, leader_url)) is not None:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _answer(
        self, leader_url: str, client: httpx.AsyncClient, request: httpx.Request
    ) -> httpx.Response:
        async with self._probe_of(leader_url, client).watch() as silence:
            answer = asyncio.create_task(client.send(request, stream=True), name="forwarded")
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
                raise _unreachable(leader_url, describe_failure(error)) from error

    async def _next_chunk(
        self, chunks: AsyncIterator[bytes], client: httpx.AsyncClient, leader_url: str
    ) -> bytes | None:
        reading = asyncio.ensure_future(anext(chunks, None))
        try:
            while True:
                await asyncio.wait({reading}, timeout=QUIET_SECONDS)
                if reading.done():
                    return reading.result()
                if (silence := await _ping(client, leader_url)) is not None:
                    raise TimeoutError(f"the leading master at {leader_url} {silence}")
        finally:
            if not reading.done():
                reading.cancel()
                await asyncio.wait({reading})

    def _probe_of(self, leader_url: str, client: httpx.AsyncClient) -> LeaderProbe:
        if self._probe is None or self._probe.url != leader_url:
            self._probe = LeaderProbe(leader_url, client, self._leader_url)
        return self._probe

    def _client_for(self, leader_url: str) -> httpx.AsyncClient:
        path = socket_in(leader_url)
        if path not in self._clients:
            self._clients[path] = self._open_client(path)
        return self._clients[path]

    def _open_client(self, path: Path | None) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        name = None if path is None else self._socket_names.enter_context(usable_name(path))
        verify = True if self._trust is None else self._trust
        return httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
            transport=httpx.AsyncHTTPTransport(
                verify=verify, limits=limits, uds=name, trust_env=False
            ),
            trust_env=False,
        )


def _unreachable(leader_url: str, reason: str) -> RecipientUnreachable:
    return RecipientUnreachable(f"the leading master at {leader_url} {reason}; try again")


async def _abandon(answer: "asyncio.Task[httpx.Response]") -> None:
    """Cancels a request and releases its connection."""
    answer.cancel()
    await asyncio.wait({answer})
    if not answer.cancelled() and answer.exception() is None:
        await answer.result().aclose()


def _base(url: str) -> httpx.URL:
    return httpx.URL(url if socket_in(url) is None else _URL_BEHIND_SOCKET)


def _url(leader_url: str, scope: Scope) -> httpx.URL:
    target = scope["raw_path"] or scope["path"].encode()
    query = scope["query_string"]
    return _base(leader_url).copy_with(raw_path=target + (b"?" + query if query else b""))


def _request_headers(scope: Scope, proof: str | None) -> list[tuple[bytes, bytes]]:
    kept = _without(scope["headers"], _HOP_BY_HOP_HEADERS | _REPLACED_HEADERS)
    client = scope["client"]
    added = [(FORWARDED, (client[0] if client else "unknown").encode())]
    if proof is not None:
        added.append((FORWARDING_PROOF, proof.encode()))
    if (certificate := scope.get(CERTIFICATE)) is not None:
        added.append((CERTIFICATE_NAME, quote(certificate).encode()))
    return [*kept, *added]


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

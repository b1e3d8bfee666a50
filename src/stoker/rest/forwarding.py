"""A standby answers by asking the leader."""

from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing

import httpx
from litestar.types import HTTPScope, Receive, Send

from stoker.core.errors import RecipientUnreachable
from stoker.rest.border import FORWARDED
from stoker.rest.options import RestOptions

_CONNECT_SECONDS = 2.0
_READ_MARGIN_SECONDS = 30.0
_OF_ONE_CONNECTION = frozenset(
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
_MADE_ANEW = frozenset({b"host", b"origin", b"expect"})


class Forwarder:
    def __init__(self, options: RestOptions) -> None:
        read = options.max_wait.total_seconds() + _READ_MARGIN_SECONDS
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(read, connect=_CONNECT_SECONDS), trust_env=False
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def forward(
        self, leader_url: str, scope: HTTPScope, receive: Receive, send: Send
    ) -> None:
        """RecipientUnreachable while nothing has been answered; later the connection breaks."""
        request = self._client.build_request(
            scope["method"],
            _url(leader_url, scope),
            headers=_request_headers(scope),
            content=_body(receive) if _has_body(scope) else None,
        )
        try:
            response = await self._client.send(request, stream=True)
        except httpx.TransportError as error:
            raise RecipientUnreachable(
                f"the leading master at {leader_url} does not answer: {error!r}; ask again"
            ) from error
        async with aclosing(response):
            await send(
                {
                    "type": "http.response.start",
                    "status": response.status_code,
                    "headers": _without(response.headers.raw, _OF_ONE_CONNECTION),
                }
            )
            async for chunk in response.aiter_raw():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _url(leader_url: str, scope: HTTPScope) -> httpx.URL:
    target = scope["raw_path"] or scope["path"].encode()
    query = scope["query_string"]
    return httpx.URL(leader_url).copy_with(raw_path=target + (b"?" + query if query else b""))


def _request_headers(scope: HTTPScope) -> list[tuple[bytes, bytes]]:
    kept = _without(scope["headers"], _OF_ONE_CONNECTION | _MADE_ANEW)
    return [*kept, (FORWARDED, b"1")]


def _without(
    headers: Iterable[tuple[bytes, bytes]], names: frozenset[bytes]
) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name.lower() not in names]


def _has_body(scope: HTTPScope) -> bool:
    names = {name for name, value in scope["headers"] if value != b"0"}
    return bool(names & {b"content-length", b"transfer-encoding"})


async def _body(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise RecipientUnreachable("the client went away in the middle of its request")
        yield message["body"]
        if not message["more_body"]:
            return

"""The client for programs with an event loop. It uses httpx."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from stoker.api.shape import RETRY_AFTER
from stoker.api.versions import SERVER_HEADER
from stoker.client.answers import MasterAnswer, answer_too_large, error_of, value_of
from stoker.client.identity import (
    base_of,
    check_answer,
    check_listener,
    check_server,
    context_for,
    find_tls,
    headers_of,
    is_cut_off,
    untrusted,
)
from stoker.client.masters import Attempts, Masters, log_retry, parse_masters
from stoker.client.operations import ClientOperations
from stoker.client.options import ClientOptions
from stoker.client.steps import Asynchronous, ClientSettings, Pause, Request, RestCall, Step
from stoker.client.submission import SubmissionBody
from stoker.osproc.unix_socket import socket_in, usable_name

T = TypeVar("T")

AsyncSleep = Callable[[float], Awaitable[None]]


class AsyncClient(ClientOperations, Asynchronous):
    """Calls the masters named by one or more URLs, separated by commas.

    Connections stay open between calls; `async with` closes them at its end.
    """

    def __init__(
        self,
        masters: str,
        options: ClientOptions | None = None,
        *,
        sleep: AsyncSleep = asyncio.sleep,
    ) -> None:
        self._masters = Masters(parse_masters(masters))
        self._options = options or ClientOptions()
        self._sleep = sleep
        self._http = httpx.AsyncClient(trust_env=False, verify=self._trust())
        self._sockets: dict[str, httpx.AsyncClient] = {}
        """Clients of masters that are named by a Unix domain socket."""
        self._socket_names = ExitStack()

    def _trust(self) -> ssl.SSLContext | bool:
        contexts = (context_for(url, self._options) for url in self._masters.urls)
        return next((context for context in contexts if context is not None), True)

    @property
    def masters(self) -> str:
        """URLs of the masters, separated by commas."""
        return ",".join(self._masters.urls)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for client in (self._http, *self._sockets.values()):
            await client.aclose()
        self._sockets.clear()
        self._socket_names.close()

    def _client_for(self, url: str) -> httpx.AsyncClient:
        path = socket_in(url)
        if path is None:
            return self._http
        if url not in self._sockets:
            name = self._socket_names.enter_context(usable_name(path))
            transport = httpx.AsyncHTTPTransport(uds=name, verify=False, trust_env=False)
            self._sockets[url] = httpx.AsyncClient(trust_env=False, transport=transport)
        return self._sockets[url]

    async def run(self, request: Request[T]) -> T:
        steps = iter(request)
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                outcome: T = end.value
                return outcome
            answer = await self._take(step)

    async def stream(self, steps: Generator[Step | bytes, Any, None]) -> AsyncIterator[bytes]:
        """The pieces that an operation such as `operations.log` yields beside its steps."""
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration:
                return
            if isinstance(step, bytes):
                yield step
                answer = None
            else:
                answer = await self._take(step)

    async def _take(self, step: Step) -> Any:
        match step:
            case RestCall():
                return await self._call(step)
            case Pause(seconds):
                return await self._sleep(seconds)
            case _:
                return ClientSettings(self._options, self._masters.hold_seconds)

    async def _call(self, call: RestCall[T]) -> T:
        attempts = Attempts(self._masters, self._options)
        while True:
            try:
                answer = await self._exchange(attempts, call)
            except (httpx.ReadTimeout, httpx.WriteTimeout):
                await self._sleep(attempts.record_silence(attempts.patience + call.waits))
                continue
            except httpx.TransportError as error:
                tls_error = _tls_error_in(error)
                if tls_error is not None and not is_cut_off(tls_error):
                    raise untrusted(attempts.url, tls_error) from error
                if not self._masters.has_answered:
                    await self._raise_if_tls(attempts.url, error)
                await self._pause(attempts.record_unreachable(_reason(error)), attempts.reason)
                continue
            attempts.record_answer()
            if not answer.may_be_repeated:
                return value_of(call, answer.status, answer.body)
            message = error_of(answer.status, answer.body).message
            await self._pause(attempts.record_unavailable(message), attempts.reason)

    async def _pause(self, seconds: float, reason: str) -> None:
        if seconds and self._masters.has_answered:
            log_retry(reason)
        await self._sleep(seconds)

    async def _raise_if_tls(self, url: str, error: httpx.TransportError) -> None:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return
        if (fault := await asyncio.to_thread(find_tls, url, error)) is not None:
            raise fault from error

    async def _exchange(self, attempts: Attempts, call: RestCall[Any]) -> MasterAnswer:
        sent = call.body
        patience = attempts.patience
        connect = min(self._options.connect_timeout.total_seconds(), patience)
        await asyncio.to_thread(check_listener, attempts.url, self._options)
        try:
            client = self._client_for(attempts.url)
        except OSError as error:
            raise httpx.ConnectError(error.strerror or str(error)) from error
        request = client.build_request(
            call.method,
            base_of(attempts.url) + call.target,
            headers=headers_of(self._options) | ({} if sent is None else sent.headers),
            content=None if sent is None else _pieces(sent),
            timeout=httpx.Timeout(patience + call.waits, connect=connect),
        )
        response = await client.send(request, stream=True)
        try:
            header = response.headers.get(SERVER_HEADER)
            check_server(header)
            body = await self._read(response)
            check_answer(attempts.url, header, response.status_code, body)
            return MasterAnswer(
                status=response.status_code,
                body=body,
                retry_after=response.headers.get(RETRY_AFTER),
            )
        finally:
            await response.aclose()

    async def _read(self, response: httpx.Response) -> bytes:
        answer = bytearray()
        async for chunk in response.aiter_bytes():
            answer += chunk
            if len(answer) > self._options.max_content_length:
                raise answer_too_large(self._options)
        return bytes(answer)


async def _pieces(body: SubmissionBody) -> AsyncIterator[bytes]:
    pieces = body.pieces()
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece


def _tls_error_in(error: BaseException | None) -> ssl.SSLError | None:
    """The TLS error behind an error of httpx, which has no class of its own for them."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error


def _reason(error: httpx.TransportError) -> str:
    if isinstance(error, httpx.ConnectTimeout):
        return "connection timed out"
    if isinstance(error, httpx.ConnectError):
        # This text of httpx hides that the connection was refused; its other texts give reasons.
        text = str(error).replace("All connection attempts failed", "connection refused")
        return text or "connection cut off"
    if isinstance(error, httpx.RemoteProtocolError) and "disconnected" not in str(error):
        return "what answers there does not use HTTP"
    return str(error) or type(error).__name__

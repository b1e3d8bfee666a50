"""The client for programs without an event loop, above all the command line.

It uses http.client, because importing httpx takes longer than a whole `stoker list` may.
"""

import http
import http.client
import os
import select
import ssl
import time
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from stoker.api.shape import RETRY_AFTER
from stoker.api.versions import SERVER_HEADER
from stoker.client.answers import MasterAnswer, answer_too_large, error_of, value_of
from stoker.client.identity import (
    NAME_BEHIND_SOCKET,
    check_answer,
    check_listener,
    check_server,
    context_for,
    find_tls,
    headers_of,
    is_cut_off,
    prefix_of,
    untrusted,
)
from stoker.client.masters import Attempts, Masters, log_retry, parse_masters
from stoker.client.operations import ClientOperations
from stoker.client.options import ClientOptions
from stoker.client.steps import Blocking, ClientSettings, Pause, Request, RestCall, Step
from stoker.client.submission import SubmissionBody
from stoker.osproc.unix_socket import connect_to, socket_in

Connection = http.client.HTTPConnection


class Connections:
    """Idle connections. A thread owns the one it takes until it gives it back or closes it.

    A new connection, with TLS above all, costs more than most calls. But a master, or a proxy
    before it, may close an idle one at any moment, so each is checked before it is used again.
    """

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._idle: dict[str, list[tuple[int, Connection]]] = {}
        """Idle connections by master URL, each with the id of the process that opened it."""
        weakref.finalize(self, _close_all, self._idle)

    def take(self, url: str) -> Connection | None:
        """An idle connection that looks open, or None. The master may still close it."""
        idle = self._idle.get(url, [])
        while idle:
            try:
                opener, connection = idle.pop()
            except IndexError:  # Another thread took it.
                break
            # A forked child must not use the connections of its parent.
            if opener == os.getpid() and _is_quiet(connection):
                return connection
            connection.close()
        return None

    def open(self, url: str, timeout: float) -> Connection:
        check_listener(url, self._options)
        if (path := socket_in(url)) is not None:
            return _open_socket(path, timeout)
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        context = context_for(url, self._options)
        if context is None:
            connection = Connection(host, port, timeout=timeout)
        else:
            connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        return connection

    def give_back(self, url: str, connection: Connection) -> None:
        """Keep a connection whose last answer was read to its end."""
        if connection.sock is not None:
            self._idle.setdefault(url, []).append((os.getpid(), connection))

    def close(self) -> None:
        _close_all(self._idle)


def _open_socket(path: Path, timeout: float) -> Connection:
    connection = Connection(NAME_BEHIND_SOCKET, timeout=timeout)
    connection.sock = connect_to(path, timeout)
    return connection


def _is_quiet(connection: Connection) -> bool:
    """True if neither bytes nor the end of the stream wait: no request is outstanding."""
    if isinstance(connection.sock, ssl.SSLSocket) and connection.sock.pending():
        return False
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN | select.POLLHUP | select.POLLERR)
    return not poll.poll(0)


def _close_all(idle: dict[str, list[tuple[int, Connection]]]) -> None:
    for connections in list(idle.values()):
        while connections:
            _, connection = connections.pop()
            connection.close()


T = TypeVar("T")

Sleep = Callable[[float], None]
OnRetry = Callable[[str], None]
"""Called with the reason before a call is repeated after a pause."""


class _Silent(Exception):
    """A master accepted the call and did not answer within `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class BlockingClient(ClientOperations, Blocking):
    """Calls the masters named by one or more URLs, separated by commas; threads may share it."""

    def __init__(
        self,
        masters: str,
        options: ClientOptions | None = None,
        *,
        sleep: Sleep = time.sleep,
        on_retry: OnRetry = log_retry,
        named_by: str = "",
    ) -> None:
        self._masters = Masters(parse_masters(masters), named_by)
        self._options = options or ClientOptions()
        self._connections = Connections(self._options)
        self._sleep = sleep
        self._on_retry = on_retry

    @property
    def masters(self) -> str:
        """URLs of the masters, separated by commas."""
        return ",".join(self._masters.urls)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connections that stay open between calls; a later call opens a new one."""
        self._connections.close()

    def run(self, request: Request[T]) -> T:
        steps = iter(request)
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                outcome: T = end.value
                return outcome
            answer = self._take(step)

    def stream(self, steps: Generator[Step | bytes, Any, None]) -> Iterator[bytes]:
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
                answer = self._take(step)

    def _take(self, step: Step) -> Any:
        match step:
            case RestCall():
                return self._call(step)
            case Pause(seconds):
                return self._sleep(seconds)
            case _:
                return ClientSettings(self._options, self._masters.hold_seconds)

    def _call(self, call: RestCall[T]) -> T:
        attempts = Attempts(self._masters, self._options)
        while True:
            try:
                answer = self._exchange(attempts, call)
            except _Silent as error:
                self._sleep(attempts.record_silence(error.seconds))
                continue
            except (OSError, http.client.HTTPException) as error:
                if not self._masters.has_answered and (fault := find_tls(attempts.url, error)):
                    raise fault from error
                self._pause(attempts.record_unreachable(_reason(error)), attempts.reason)
                continue
            attempts.record_answer()
            if not answer.may_be_repeated:
                return value_of(call, answer.status, answer.body)
            message = error_of(answer.status, answer.body).message
            self._pause(attempts.record_unavailable(message), attempts.reason)

    def _pause(self, seconds: float, reason: str) -> None:
        if seconds and self._masters.has_answered:
            self._on_retry(reason)
        self._sleep(seconds)

    def _exchange(self, attempts: Attempts, call: RestCall[Any]) -> MasterAnswer:
        url, patience = attempts.url, attempts.patience + call.waits
        idle = self._connections.take(url)
        if idle is not None:
            # If the master has just closed it, repeat the call: every call may be repeated.
            with suppress(ConnectionError, ssl.SSLError):
                return self._converse(idle, url, call, patience)
        connect_timeout = self._options.connect_timeout.total_seconds()
        try:
            connection = self._connections.open(url, min(connect_timeout, attempts.patience))
            return self._converse(connection, url, call, patience)
        except ssl.SSLError as error:
            if is_cut_off(error):
                raise
            raise untrusted(url, error) from error

    def _converse(
        self,
        connection: Connection,
        url: str,
        call: RestCall[Any],
        patience: float,
    ) -> MasterAnswer:
        must_close = True
        try:
            connection.sock.settimeout(patience)
            headers = headers_of(self._options)
            _send(connection, prefix_of(url) + call.target, call.method, headers, call.body)
            response = connection.getresponse()
            check_server(response.headers.get(SERVER_HEADER))
            status, answer = response.status, self._read(response)
            check_answer(url, response.headers.get(SERVER_HEADER), status, answer)
            # A master may refuse a call before it has read the whole body.
            is_refused = status >= http.HTTPStatus.BAD_REQUEST
            must_close = is_refused or response.will_close or not response.isclosed()
            return MasterAnswer(
                status=status, body=answer, retry_after=response.headers.get(RETRY_AFTER)
            )
        except TimeoutError as error:
            raise _Silent(patience) from error
        finally:
            if must_close:
                connection.close()
            else:
                self._connections.give_back(url, connection)

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        answer = response.read(self._options.max_content_length + 1)
        if len(answer) > self._options.max_content_length:
            raise answer_too_large(self._options)
        return answer


def _send(
    connection: Connection,
    target: str,
    method: str,
    headers: dict[str, str],
    body: SubmissionBody | None,
) -> None:
    if body is None:
        connection.request(method, target, headers=headers)
        return
    try:
        connection.request(method, target, body=body.pieces(), headers=headers | body.headers)
    except (BrokenPipeError, ConnectionResetError):
        # The master refused the body before its end. Its answer may have arrived already.
        return


def _reason(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return "connection timed out"
    if is_cut_off(error):
        return "connection cut off"
    if isinstance(error, http.client.BadStatusLine) and not isinstance(error, ConnectionError):
        return "what answers there does not use HTTP"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__

"""Serves the REST API inside a running event loop."""

import asyncio
import contextlib
import errno
import math
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import uvicorn

from stoker.aio.scope import TaskScope
from stoker.core.errors import StartupFailed
from stoker.core.ports import parse_ports
from stoker.osproc.unix_socket import listen_on
from stoker.rest.http.connections import LimitedProtocol, OpenConnections, connection_limits
from stoker.rest.http.middleware import RestMiddleware
from stoker.rest.http.origin import check_origins
from stoker.rest.http.tls_port import accept_connections
from stoker.rest.options import RestOptions
from stoker.security.binding import advertised_host, check_binding
from stoker.security.material import TlsMaterial

BIND_ADDRESS = "rest.bind-address"
BIND_PORT = "rest.bind-port"
_KEEP_ALIVE_SECONDS = 30


@dataclass(frozen=True, kw_only=True)
class ListenKeys:
    """The options that say where a server listens, as errors name them."""

    bind_address: str = BIND_ADDRESS
    bind_port: str = BIND_PORT
    address: str = "rest.address"


REST_KEYS = ListenKeys()


@asynccontextmanager
async def serving(
    app: RestMiddleware,
    options: RestOptions,
    *,
    authenticated: bool = False,
    tls: TlsMaterial | None = None,
    asks_for_certificates: bool = False,
    keys: ListenKeys = REST_KEYS,
) -> AsyncIterator[str]:
    """Answers requests while the context is open; yields the base URL.

    At exit the server first answers waiting requests with 503 and gives asynchronous operations
    `shutdown_timeout` to end and clients to read their outcomes. Then it accepts no new connections
    and gives requests in progress `shutdown_timeout` to end.
    """
    check_binding(options.bind_address, keys.bind_address, authenticated=authenticated)
    check_origins(options, authenticated=authenticated)
    host = advertised_host(options.bind_address, keys.bind_address, options.address, keys.address)
    listener = _bind_first_free(
        options.bind_address, parse_ports(options.bind_port, keys.bind_port), keys.bind_port
    )
    with contextlib.closing(listener), _local_listener(options.socket) as local:
        url = _url(listener, host, "http" if tls is None else "https")
        server = _Server(app, options, tls, asks_for_certificates, url)
        task = asyncio.create_task(server.serve(sockets=[listener, *local]), name="rest-server")
        try:
            await server.wait_until_started(task)
            async with TaskScope("rest") as scope:
                scope.spawn("forwarder", app.prepare_to_forward())
                yield url
        finally:
            try:
                await app.prepare_to_close()
            finally:
                server.should_exit = True
                await task
                # Requests that exceed the timeout are cancelled, and still send an answer.
                await asyncio.gather(*server.server_state.tasks, return_exceptions=True)
                await app.close()


def _bind_first_free(address: str, ports: tuple[range, ...], option: str) -> socket.socket:
    for port in _ports_in(ports):
        try:
            return _bind(address, port)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                continue
            raise StartupFailed(f"cannot listen on {address}: {error.strerror or error}") from error
    tried = ", ".join(_describe(each) for each in ports)
    raise StartupFailed(
        f"no free port on {address}: tried {tried}; stop what listens there or change {option}"
    )


@contextlib.contextmanager
def _local_listener(path: Path | None) -> Iterator[Sequence[socket.socket]]:
    """The Unix domain socket, if one is configured; it is removed at the end."""
    if path is None:
        yield ()
        return
    try:
        listener = listen_on(path)
    except OSError as error:
        raise StartupFailed(
            f"cannot listen on {path}: {error.strerror or error}; change rest.socket"
        ) from error
    with contextlib.closing(listener):
        try:
            yield (listener,)
        finally:
            path.unlink(missing_ok=True)


def _ports_in(ports: tuple[range, ...]) -> Iterator[int]:
    for each in ports:
        yield from each


def _describe(ports: range) -> str:
    return str(ports[0]) if len(ports) == 1 else f"{ports[0]}-{ports[-1]}"


def _bind(address: str, port: int) -> socket.socket:
    family, kind, protocol, _, target = socket.getaddrinfo(
        address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, kind, protocol)
    try:
        # Allows the port of a server that has just stopped.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(target)
        # Another process may have bound the port too, but only one can listen.
        bound.listen()
    except OSError:
        bound.close()
        raise
    return bound


def _url(listener: socket.socket, host: str, scheme: str) -> str:
    port = listener.getsockname()[1]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals, logging and the event loop to this process."""

    def __init__(
        self,
        app: RestMiddleware,
        options: RestOptions,
        tls: TlsMaterial | None,
        asks_for_certificates: bool,
        url: str,
    ) -> None:
        self._connections = OpenConnections(connection_limits(options))
        self._url = url
        self._accepting: asyncio.Task[None] | None = None
        super().__init__(
            uvicorn.Config(
                app,
                loop="none",
                http=cast(Any, partial(LimitedProtocol, connections=self._connections)),
                ws="none",
                # `serving` prepares and closes the app: uvicorn tells it of the shutdown too late,
                # when it has closed all connections.
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=math.ceil(options.shutdown_timeout.total_seconds()),
                ssl_certfile=tls.certificate if tls else None,
                ssl_keyfile=tls.key if tls else None,
                ssl_ca_certs=str(tls.authorities) if tls and tls.authorities else None,
                ssl_cert_reqs=ssl.CERT_REQUIRED if asks_for_certificates else ssl.CERT_NONE,
            )
        )
        self._started = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        async with TaskScope("rest-server") as self._scope:
            self._scope.spawn("connections", self._connections.sweep_repeatedly())
            await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        context = self.config.ssl
        if context is None:
            await super().startup(sockets=sockets)
        else:
            await super().startup(sockets=[])
            listener, *local = sockets or []
            loop = asyncio.get_running_loop()
            # What crosses it never leaves the machine, and the kernel knows who may connect.
            self.servers += [
                await loop.create_unix_server(self._make_protocol, sock=each) for each in local
            ]
            accepting = accept_connections(
                listener, context, self._make_protocol, self._connections, self._url
            )
            self._accepting = self._scope.spawn("tls-port", accepting)
        self._started.set()

    def _make_protocol(self) -> asyncio.Protocol:
        return LimitedProtocol(
            config=self.config,
            server_state=self.server_state,
            app_state={},
            connections=self._connections,
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait({self._accepting})
        await super().shutdown(sockets=sockets)

    async def wait_until_started(self, task: "asyncio.Task[None]") -> None:
        started = asyncio.create_task(self._started.wait(), name="rest-server-started")
        try:
            await asyncio.wait({started, task}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            started.cancel()

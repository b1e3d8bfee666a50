"""The RPC contract: endpoints answer calls, gateways make them, a service transports them.

Two services implement it with the same contract tests: `memory` (one process, for simulations,
with faults on demand) and `grpc` (between processes).
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from datetime import timedelta
from typing import ClassVar, Protocol, TypeVar

from stoker.core.values import FencingToken

G = TypeVar("G")

PROTOCOL_VERSION = 4

call_deadline: ContextVar[float | None] = ContextVar("call_deadline", default=None)
"""Inside a call: the loop time at which its caller stops waiting for the answer."""


class Endpoint:
    """Answers the calls of its gateway.

    `gateway` is a Protocol class of `async def` methods with annotated parameters and result. The
    endpoint implements each of them, as `def` (one turn) or `async def` (a turn up to each await;
    other turns may come in between, so state may change across an await). All turns of an endpoint
    run on the loop that started it; `check_turn` fails anywhere else.

    A call that has begun continues when its caller leaves (timeout, cancellation, crash), and is
    cancelled only when the endpoint stops. So a method that waits long needs its own limit;
    `call_deadline` says how long the caller waits.

    With a `token`, only calls that send an equal one reach a method; every other call is refused
    with FencingTokenMismatch before the body runs.
    """

    gateway: ClassVar[type]

    def __init__(self, name: str, *, token: FencingToken | None = None) -> None:
        self.name = name
        self.token = token
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scheduled: set[asyncio.TimerHandle] = set()

    async def on_start(self) -> None:
        """Runs before the first call is answered; an error fails the start, without `on_stop`."""

    async def on_stop(self) -> None:
        """Runs once, after the last call was refused; termination waits for it."""

    def check_turn(self) -> None:
        """Fail when the caller is not on the endpoint's loop."""
        if self._loop is None:
            raise RuntimeError(f"endpoint {self.name} is not running, so nothing is its turn")
        try:
            current = asyncio.get_running_loop()
        except RuntimeError:
            current = None
        if current is not self._loop:
            raise RuntimeError(f"endpoint {self.name} was touched from outside its event loop")

    def schedule(self, delay: timedelta, turn: Callable[[], None]) -> asyncio.TimerHandle:
        """Schedule a turn; it is dropped if the endpoint stops or its token changes before."""
        self.check_turn()
        token = self.token

        def run() -> None:
            self._scheduled.discard(handle)
            if self.token == token:
                turn()

        loop = asyncio.get_running_loop()
        handle = loop.call_later(delay.total_seconds(), run)
        self._scheduled.add(handle)
        return handle

    def enter_service(self) -> None:
        """Called by the service: from here on, turns belong to the running loop."""
        self._loop = asyncio.get_running_loop()

    def leave_service(self) -> None:
        """Called by the service: there are no further turns."""
        for handle in self._scheduled:
            handle.cancel()
        self._scheduled.clear()
        self._loop = None


class RpcService(Protocol):
    @property
    def address(self) -> str:
        """`grpc://host:port` or `mem://name`; an endpoint's address adds a slash and its name."""
        ...

    def running(self, endpoint: Endpoint) -> AbstractAsyncContextManager[str]:
        """Start the endpoint, yield its address, stop it at exit.

        While it runs, calls are answered. As soon as the exit begins, all calls fail at once with
        RecipientUnreachable, including those in flight. A call before the end of the start hook
        gets EndpointNotStarted. A name can be reused after its endpoint has stopped; before that,
        a second endpoint is refused with ValueError. Turns see the context variables from the
        start of the endpoint, not those of their callers.
        """
        ...

    async def connect(
        self,
        address: str,
        gateway: type[G],
        *,
        token: FencingToken | None = None,
        timeout: timedelta | None = None,
    ) -> G:
        """A proxy for the endpoint at `address`.

        A handshake comes first: RecipientUnreachable when nobody answers in time, HandshakeFailed
        when the protocol version or the gateway differ (the endpoint's gateway, or a Protocol that
        it extends). The handshake ignores the token.

        Every method of the proxy raises what the endpoint's method raised (same type, message and
        facts for a StokerError and for built-in exceptions, RemoteError for others),
        RecipientUnreachable at once when the peer is absent or stops while the call is in flight,
        CallTimedOut after `timeout` (rpc.ask-timeout unless given), naming method, recipient and
        call site. Arguments that cannot be sent are a TypeError and a request that is too large is
        TooLarge, both without a call; for an answer that is too large the caller gets TooLarge.
        """
        ...

    def reach(
        self,
        address: str,
        gateway: type[G],
        *,
        token: FencingToken | None = None,
        timeout: timedelta | None = None,
    ) -> G:
        """Like `connect`, without a handshake: an absent endpoint is noticed by the first call.

        For endpoints of a process that has passed a handshake before, and so surely speaks the
        same version.
        """
        ...

    async def wait_until_gone(self, address: str) -> None:
        """Return as soon as the transport sees that the endpoint at `address` is absent.

        It does not notice a silent peer (frozen or cut off): heartbeats do.
        """
        ...

    async def close(self) -> None:
        """Stop all endpoints, wait for them even when some fail, then stop listening.

        Then raise the error of the stop hooks; several errors as a group.
        """
        ...


Connect = Callable[[str], Awaitable[G]]
"""Returns a proxy for the endpoint at an address."""

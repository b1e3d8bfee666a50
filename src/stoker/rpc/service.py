"""The RPC contract: endpoints answer, gateways call, a service carries.

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
"""Inside a call: the time of the loop at which its caller stops waiting for the answer."""


class Endpoint:
    """One that answers the calls of its gateway.

    `gateway` is a Protocol class of `async def` methods with annotated parameters and result. The
    endpoint implements each of them, as `def` (one turn) or `async def` (a turn up to every
    await; others may come in between, so no state may be assumed across an await). All turns of
    an endpoint run on the loop that started it; `check_turn` fails anywhere else.

    A call that has begun goes on when its caller leaves (timeout, cancellation, crash) and is
    cancelled only when the endpoint stops. So a method that waits long needs a limit of its own;
    `call_deadline` says how long the caller waits.

    With a `token`, only calls that carry an equal one reach a method; a lower epoch, another
    session or no token at all is refused with FencingTokenMismatch before the body runs.
    """

    gateway: ClassVar[type]

    def __init__(self, name: str, *, token: FencingToken | None = None) -> None:
        self.name = name
        self.token = token
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scheduled: set[asyncio.TimerHandle] = set()

    async def on_start(self) -> None:
        """Runs before the first call is answered; an error fails the start, with no on_stop."""

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
        """A turn for later: it never comes when the endpoint stops or its token changes first."""
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
        """For the service: turns belong to the running loop from here on."""
        self._loop = asyncio.get_running_loop()

    def leave_service(self) -> None:
        """For the service: there are no further turns."""
        for handle in self._scheduled:
            handle.cancel()
        self._scheduled.clear()
        self._loop = None


class RpcService(Protocol):
    @property
    def address(self) -> str:
        """`grpc://host:port` or `mem://name`; the address of an endpoint is this + `/` + name."""
        ...

    def running(self, endpoint: Endpoint) -> AbstractAsyncContextManager[str]:
        """Start the endpoint, yield its address, stop it at exit.

        While it runs, calls are answered; from the beginning of the exit on they fail at once with
        RecipientUnreachable, those in flight too. A call that comes before the start hook has
        ended gets EndpointNotStarted. A name can be used again after its endpoint has stopped;
        while it is in use a second one is refused with ValueError. Turns see the context
        variables as they were when the endpoint started, not those of their callers.
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

        Shakes hands first: RecipientUnreachable when nobody answers there in time, HandshakeFailed
        when protocol version or gateway differ (the endpoint's gateway, or a Protocol that it
        extends). Hands are shaken without a look at the token.

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
        """As `connect`, without a handshake: that nobody is there, the first call tells.

        For endpoints of a process with which hands were shaken before, so that it surely speaks
        the same version.
        """
        ...

    async def wait_until_gone(self, address: str) -> None:
        """Return as soon as the transport sees that the endpoint at `address` is not there.

        Returns at once for an absent peer. A peer that is silent (frozen, cut off) is not noticed
        here: heartbeats are for that.
        """
        ...

    async def close(self) -> None:
        """Stop all endpoints, wait for them even when some fail, then stop listening.

        Then raises what the stop hooks raised; the only one as it is, several as a group.
        """
        ...


Connect = Callable[[str], Awaitable[G]]

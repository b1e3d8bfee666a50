"""The RPC contract: endpoints answer, gateways call, a service carries.

Two services implement it with the same contract tests: `memory` (one process, for simulations,
with faults on demand) and `grpc` (between processes).
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import ClassVar, Protocol, TypeVar

from stoker.core.tokens import FencingToken

G = TypeVar("G")

PROTOCOL_VERSION = 1
DEFAULT_TIMEOUT = timedelta(seconds=10)


class Endpoint:
    """One that answers the calls of its gateway.

    `gateway` is a Protocol class of `async def` methods with annotated parameters and result. The
    endpoint implements each of them, as `def` (one turn) or `async def` (a turn up to every
    await; others may come in between, so no state may be assumed across an await). All turns of
    an endpoint run on the loop that started it; `check_turn` fails anywhere else.

    With a `token`, only calls that carry the same token reach a method; a lower epoch, another
    session or no token at all is refused with FencingTokenMismatch before the body runs.
    """

    gateway: ClassVar[type]

    def __init__(self, name: str, *, token: FencingToken | None = None) -> None:
        self.name = name
        self.token = token

    async def on_start(self) -> None:
        """Runs before the first call is answered; an error makes the start fail."""

    async def on_stop(self) -> None:
        """Runs once, after the last call was refused; termination waits for it."""

    def check_turn(self) -> None:
        """Fail when the caller is not on the endpoint's loop."""
        raise NotImplementedError


class RpcService(Protocol):
    @property
    def address(self) -> str:
        """`grpc://host:port` or `mem://name`; the address of an endpoint is this + `/` + name."""
        ...

    def running(self, endpoint: Endpoint) -> AbstractAsyncContextManager[str]:
        """Start the endpoint, yield its address, stop it at exit.

        While it runs, calls are answered; from the beginning of the exit on they fail at once with
        RecipientUnreachable, those in flight too. A call that comes before the start hook has ended
        gets EndpointNotStarted. A name can be used again after its endpoint has stopped; while it is
        in use a second one is refused with ValueError.
        """
        ...

    async def connect(
        self,
        address: str,
        gateway: type[G],
        *,
        token: FencingToken | None = None,
        timeout: timedelta = DEFAULT_TIMEOUT,
    ) -> G:
        """A proxy for the endpoint at `address`.

        Shakes hands first: RecipientUnreachable when nobody answers there, HandshakeFailed when
        protocol version or gateway differ. Every method of the proxy raises what the endpoint's
        method raised (same type, message and facts for a StokerError and for built-in exceptions,
        RemoteError for others), RecipientUnreachable at once when the peer is absent or stops while
        the call is in flight, CallTimedOut after `timeout`, naming method and recipient.
        """
        ...

    async def wait_until_gone(self, address: str) -> None:
        """Return as soon as the transport sees that the endpoint at `address` is not there.

        Returns at once for an absent peer. A peer that is silent (frozen, cut off) is not noticed
        here: heartbeats are for that.
        """
        ...

    async def close(self) -> None:
        """Stop all endpoints, wait for them even when some fail, then stop listening."""
        ...


Connect = Callable[[str], Awaitable[G]]

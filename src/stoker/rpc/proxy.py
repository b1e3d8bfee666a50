"""The caller's side of every transport: a handshake, then proxies that turn calls into frames."""

import functools
import sys
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, TypeVar, cast

from stoker.core.errors import CallTimedOut, RecipientUnreachable
from stoker.core.values import FencingToken
from stoker.rpc.interface import Method, read_interface
from stoker.rpc.options import RpcOptions
from stoker.rpc.wire import Handshake, decode_reply, encode_call, encode_handshake, split_address

G = TypeVar("G")


class SendFrame(Protocol):
    """Sends a frame to the service at an address and returns its reply.

    Raises RecipientUnreachable when the peer is absent or goes away, TimeoutError when the time
    is up.
    """

    def __call__(self, service: str, frame: bytes, seconds: float, /) -> Awaitable[bytes]: ...


@dataclass(frozen=True, kw_only=True)
class CallRoute:
    """Everything that a proxy needs to reach its endpoint."""

    send: SendFrame
    address: str
    token: FencingToken | None
    timeout: timedelta
    frame_limit: int

    async def call(self, method: Method, site: str, args: Any, kwargs: Any) -> Any:
        service, endpoint = split_address(self.address)
        seconds = self.timeout.total_seconds()
        frame = encode_call(
            method,
            method.bind(args, kwargs),
            endpoint=endpoint,
            token=self.token,
            timeout_seconds=seconds,
            limit=self.frame_limit,
        )
        try:
            reply = await self.send(service, frame, seconds)
        except TimeoutError as error:
            raise CallTimedOut(
                f"{method.qualified_name} at {self.address} did not answer within {seconds:g} s "
                f"(called at {site}); whether it was carried out is unknown",
                method=method.qualified_name,
                recipient=self.address,
                call_site=site,
            ) from error
        return decode_reply(reply, method.result, f"{method.qualified_name} at {self.address}")

    async def shake_hands(self, gateway: type, version: int) -> None:
        """Have the endpoint confirm that it speaks the same version and gateway."""
        service, endpoint = split_address(self.address)
        read_interface(gateway)
        handshake = Handshake(endpoint=endpoint, gateway=gateway.__name__, version=version)
        seconds = self.timeout.total_seconds()
        try:
            reply = await self.send(service, encode_handshake(handshake), seconds)
        except TimeoutError as error:
            raise RecipientUnreachable(
                f"nobody at {self.address} answered within {seconds:g} s",
                recipient=self.address,
                timed_out=True,
            ) from error
        decode_reply(reply, None, f"the handshake with {self.address}")


class Caller:
    """The calling half of an RPC service, for any transport that can send a frame."""

    def __init__(self, send: SendFrame, options: RpcOptions, protocol_version: int) -> None:
        self._send = send
        self._options = options
        self._version = protocol_version

    async def connect(
        self,
        address: str,
        gateway: type[G],
        *,
        token: FencingToken | None = None,
        timeout: timedelta | None = None,
    ) -> G:
        route = self._route(address, token, timeout)
        await route.shake_hands(gateway, self._version)
        return make_proxy(gateway, route)

    def reach(
        self,
        address: str,
        gateway: type[G],
        *,
        token: FencingToken | None = None,
        timeout: timedelta | None = None,
    ) -> G:
        return make_proxy(gateway, self._route(address, token, timeout))

    def _route(
        self, address: str, token: FencingToken | None, timeout: timedelta | None
    ) -> CallRoute:
        return CallRoute(
            send=self._send,
            address=address,
            token=token,
            timeout=timeout or self._options.ask_timeout,
            frame_limit=self._options.frame_size,
        )


def make_proxy(gateway: type[G], route: CallRoute) -> G:
    """An object with the methods of the gateway, each of which calls the endpoint."""
    proxy = _proxy_class(cast(Any, gateway))()
    proxy.route = route
    return cast(G, proxy)


@functools.cache
def _proxy_class(gateway: type) -> Any:
    """Cached: making a class takes longer than a call."""
    body: dict[str, Any] = {
        name: _proxy_method(method) for name, method in read_interface(gateway).methods.items()
    }
    body["__repr__"] = lambda self: f"<{gateway.__name__} at {self.route.address}>"
    return type(f"{gateway.__name__}Proxy", (), body)


def _proxy_method(method: Method) -> Callable[..., Coroutine[Any, Any, Any]]:
    # Not `async def`: the caller's frame is on the stack only until the coroutine is returned.
    def call(self: Any, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        caller = sys._getframe(1)
        site = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        route: CallRoute = self.route
        return route.call(method, site, args, kwargs)

    return call

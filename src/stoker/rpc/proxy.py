"""The caller's side of every transport: shake hands, then turn method calls into frames."""

import functools
import sys
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, TypeVar, cast

from stoker.core.errors import CallTimedOut, RecipientUnreachable
from stoker.core.values import FencingToken
from stoker.rpc.interface import Method, read_interface
from stoker.rpc.wire import Greeting, decode_reply, encode_call, encode_greeting, split_address

G = TypeVar("G")


class Carry(Protocol):
    """Brings a frame to the service at an address and its reply back.

    Raises RecipientUnreachable when nobody is there or the peer goes away, TimeoutError when the
    time is up.
    """

    def __call__(self, service: str, frame: bytes, seconds: float, /) -> Awaitable[bytes]: ...


@dataclass(frozen=True, kw_only=True)
class Line:
    """All that a proxy needs to reach its endpoint."""

    carry: Carry
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
            reply = await self.carry(service, frame, seconds)
        except TimeoutError as error:
            raise CallTimedOut(
                f"{method.qualified_name} at {self.address} did not answer within {seconds:g} s "
                f"(called at {site}); whether it was carried out is unknown",
                method=method.qualified_name,
                recipient=self.address,
                call_site=site,
            ) from error
        return decode_reply(reply, method.result, f"{method.qualified_name} at {self.address}")


def _proxy_method(method: Method) -> Callable[..., Coroutine[Any, Any, Any]]:
    # Not `async def`: the caller's line is known only before the coroutine is handed out.
    def call(self: Any, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        caller = sys._getframe(1)
        site = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        line: Line = self.line
        return line.call(method, site, args, kwargs)

    return call


def make_proxy(gateway: type[G], line: Line) -> G:
    """An object with the methods of the gateway, each of which calls the other end."""
    proxy = _proxy_class(cast(Any, gateway))()
    proxy.line = line
    return cast(G, proxy)


@functools.cache
def _proxy_class(gateway: type) -> Any:
    """One for all: to make a class takes longer than a call."""
    body: dict[str, Any] = {
        name: _proxy_method(method) for name, method in read_interface(gateway).methods.items()
    }
    body["__repr__"] = lambda self: f"<{gateway.__name__} at {self.line.address}>"
    return type(f"{gateway.__name__}Proxy", (), body)


async def connect(line: Line, gateway: type[G], *, version: int) -> G:
    """A proxy, after the other end has confirmed that it speaks the same version and gateway."""
    service, endpoint = split_address(line.address)
    read_interface(gateway)
    greeting = Greeting(endpoint=endpoint, gateway=gateway.__name__, version=version)
    try:
        reply = await line.carry(service, encode_greeting(greeting), line.timeout.total_seconds())
    except TimeoutError as error:
        raise RecipientUnreachable(
            f"nobody at {line.address} answered within {line.timeout.total_seconds():g} s",
            recipient=line.address,
            timed_out=True,
        ) from error
    decode_reply(reply, None, f"the handshake with {line.address}")
    return make_proxy(gateway, line)

"""Which port a server listens on: the first free one of those that are configured."""

import errno
import socket
from collections.abc import Iterator

from stoker.core.errors import InvalidOption, StartupFailed

_MAX_PORT = 65535


def parse_ports(text: str, option: str) -> tuple[range, ...]:
    """`8081`, `8081,8083`, `8081-8090`, or these mixed; `0` is any free port."""
    try:
        ranges = tuple(_parse_range(part.strip()) for part in text.split(","))
    except ValueError:
        ranges = ()
    if not ranges or any(not ports or ports[-1] > _MAX_PORT for ports in ranges):
        raise InvalidOption(
            f"{option} must be a port, a list like 8081,8083 or a range like 8081-8090, "
            f"found {text!r}"
        )
    return ranges


def _parse_range(part: str) -> range:
    first, dash, last = part.partition("-")
    start = int(first)
    return range(start, (int(last) if dash else start) + 1)


def bind_first_free(address: str, ports: tuple[range, ...], option: str) -> socket.socket:
    for port in _each(ports):
        try:
            return _bind(address, port)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                continue
            raise StartupFailed(f"cannot listen on {address}: {error.strerror or error}") from error
    tried = ", ".join(_show(each) for each in ports)
    raise StartupFailed(
        f"no free port on {address}: tried {tried}; stop what listens there or change {option}"
    )


def _each(ports: tuple[range, ...]) -> Iterator[int]:
    for each in ports:
        yield from each


def _show(ports: range) -> str:
    return str(ports[0]) if len(ports) == 1 else f"{ports[0]}-{ports[-1]}"


def _bind(address: str, port: int) -> socket.socket:
    family, kind, protocol, _, target = socket.getaddrinfo(
        address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, kind, protocol)
    try:
        # A port of a server that has just stopped can be used at once.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(target)
        # Another process may have bound the port as we did: only one can listen.
        bound.listen()
    except OSError:
        bound.close()
        raise
    return bound

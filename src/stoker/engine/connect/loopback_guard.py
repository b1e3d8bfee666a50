"""Holds the port of a Spark server at ::1, so that nobody else can listen there.

Spark listens at 127.0.0.1. Clients name it `localhost`, because PySpark sends a token without TLS
to no other name, and most machines resolve that to ::1 first. A socket that is bound there and does
not listen makes such a connection fail at once, and gRPC goes on to 127.0.0.1.
"""

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from stoker.core.errors import StartupFailed

_HOST = "::1"
_WITHOUT_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)


@contextmanager
def guarded_port(port: int) -> Iterator[None]:
    """Hold the port while the context is open; StartupFailed if somebody else has it already.

    On a machine without IPv6 nobody can listen there.
    """
    guard = _bind(port)
    try:
        yield
    finally:
        if guard is not None:
            guard.close()


def _bind(port: int) -> socket.socket | None:
    try:
        # Without SO_REUSEADDR and SO_REUSEPORT, so that no second socket can be bound there.
        guard = socket.socket(socket.AF_INET6, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    except OSError:
        return None
    try:
        guard.bind((_HOST, port))
    except OSError as error:
        guard.close()
        if error.errno in _WITHOUT_IPV6:
            return None
        raise StartupFailed(
            f"port {port} of [{_HOST}] cannot be held: {error.strerror}; another process that "
            f"listens there would receive what is meant for the Spark server at 127.0.0.1:{port}"
        ) from error
    return guard

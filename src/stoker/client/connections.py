"""Connections to masters that stay open between calls.

A new connection, with TLS above all, costs more than most calls. But a master, or a proxy before
it, may close an idle connection at any moment, so each one is checked before it is used again.
"""

import http.client
import os
import select
import ssl
import weakref
from urllib.parse import urlsplit

from stoker.client.identity import context_for
from stoker.client.options import ClientOptions

Connection = http.client.HTTPConnection


class Connections:
    """Idle connections. A thread owns the one it takes until it gives it back or closes it."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._idle: dict[str, list[tuple[int, Connection]]] = {}
        """By the master's URL, each with the id of the process that opened it."""
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

"""A persistent HTTP connection that takes as little processor time as possible.

A load generator that worked harder than the master would measure itself. Response bodies that are
not needed are therefore discarded inside the kernel.
"""

import socket

_CHUNK = 1024 * 1024


def host_and_port(url: str) -> tuple[str, int]:
    host, _, port = url.removeprefix("http://").partition(":")
    return host, int(port)


class RawConnection:
    def __init__(self, url: str) -> None:
        self._socket = socket.create_connection(host_and_port(url))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(_CHUNK)

    def request_size(self, request: bytes, status: bytes) -> int:
        """Send a request, receive and discard the whole response body, and return its length."""
        length, received_body = self._begin(request, status)
        left = length - len(received_body)
        while left:
            # With MSG_TRUNC the Linux kernel counts the bytes and copies none of them.
            flags = socket.MSG_TRUNC | socket.MSG_WAITALL
            received = self._socket.recv_into(self._buffer, min(left, _CHUNK), flags)
            assert received, "the connection was closed"
            left -= received
        return length

    def request_body(self, request: bytes, status: bytes) -> bytes:
        """Send a request and return the response body."""
        length, received_body = self._begin(request, status)
        body = bytearray(received_body)
        while len(body) < length:
            chunk = self._socket.recv(_CHUNK)
            assert chunk, "the connection was closed"
            body += chunk
        return bytes(body)

    def _begin(self, request: bytes, status: bytes) -> tuple[int, bytes]:
        """Return the content length, and the part of the body that came with the headers."""
        self._socket.sendall(request)
        head = b""
        while b"\r\n\r\n" not in head:
            chunk = self._socket.recv(4096)
            assert chunk, "the connection was closed"
            head += chunk
        head, _, body = head.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 " + status), head
        return int(head.lower().partition(b"content-length: ")[2].split()[0]), body

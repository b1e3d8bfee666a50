"""Unix domain sockets, whose names the kernel limits to 107 bytes.

A directory may have a longer name. Then the socket is reached through an open descriptor of its
directory, which the kernel shows as /proc/self/fd/N.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

SCHEME = "unix"
_LONGEST_NAME = 107
_OWNER_ONLY = 0o600


def url_of_socket(path: Path) -> str:
    return f"{SCHEME}://{quote(str(path))}"


def socket_in(url: str) -> Path | None:
    """The socket that the URL names; None for a URL of another scheme."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == SCHEME else None


@contextmanager
def usable_name(path: Path) -> Iterator[str]:
    """A name of the socket that the kernel accepts while the context is open. Raises OSError."""
    if len(os.fsencode(path)) <= _LONGEST_NAME:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def connect_to(path: Path, timeout: float) -> socket.socket:
    """A stream to whoever listens on the socket. Raises OSError."""
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        stream.settimeout(timeout)
        with usable_name(path) as name:
            stream.connect(name)
    except BaseException:
        stream.close()
        raise
    return stream


def listen_on(path: Path) -> socket.socket:
    """Listen on a new socket, to which only this user can connect.

    Replaces the socket that a killed process has left. Raises FileExistsError if a process listens
    on it, or if something else has the name.
    """
    if path.is_socket():
        if _has_listener(path):
            raise FileExistsError("another process listens on it")
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with usable_name(path) as name:
            # Before `listen` nobody can connect, so the mode is right from the first connection.
            try:
                listener.bind(name)
            except OSError as error:
                if path.exists():
                    raise FileExistsError("it exists and is not a socket") from error
                raise
            os.chmod(name, _OWNER_ONLY)
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener


def _has_listener(path: Path) -> bool:
    try:
        connect_to(path, timeout=1.0).close()
    except ConnectionRefusedError:
        return False
    except (TimeoutError, BlockingIOError):
        # Its queue is full: somebody is busy there.
        return True
    return True

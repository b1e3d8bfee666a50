"""How client and master identify themselves to each other: tokens, versions and TLS."""

import http.client
import pwd
import socket
import ssl
from urllib.parse import urlsplit

from stoker import __version__
from stoker.api.versions import CLIENT_HEADER, explain_refused_server, version_header
from stoker.client.options import ClientOptions
from stoker.core.errors import InvalidInput, InvalidOption
from stoker.osproc.listeners import users_listening_on
from stoker.osproc.unix_socket import socket_in
from stoker.security.binding import is_loopback
from stoker.security.material import client_context

_PROBE_SECONDS = 2.0
NAME_BEHIND_SOCKET = "localhost"
"""The server's name in requests through a Unix domain socket."""
_ROOT = 0


def base_of(url: str) -> str:
    """What a request to the master begins with: its URL, or a stand-in for that of a socket."""
    return url if socket_in(url) is None else f"http://{NAME_BEHIND_SOCKET}"


def prefix_of(url: str) -> str:
    """The path with which the paths of requests to the master begin."""
    return urlsplit(base_of(url)).path


def check_listener(url: str, options: ClientOptions) -> None:
    """Refuse to show a token to another user of this machine; raises InvalidOption.

    Every user can listen on a port that is free at the moment, and without TLS nothing else tells
    who does. Root could read the token anyway.
    """
    parts = urlsplit(url)
    if options.token is None or options.server_user is None:
        return
    if parts.scheme != "http" or not is_loopback(parts.hostname or ""):
        return
    trusted = _user_id(options.server_user)
    for uid in users_listening_on(parts.port or http.client.HTTP_PORT) - {trusted, _ROOT}:
        raise InvalidOption(
            f"the token is not sent to {url}: the user {_user_name(uid)} listens there, not "
            f"{_user_name(trusted)}; name the right master, or set client.server-user to the user "
            "whose master it is"
        )


def _user_id(name: str) -> int:
    if name.isdigit():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise InvalidOption(f"client.server-user: there is no user {name!r} here") from None


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def headers_of(options: ClientOptions) -> dict[str, str]:
    version = {CLIENT_HEADER: version_header(__version__)}
    if options.token is None:
        return version
    return version | {"Authorization": f"Bearer {options.token}"}


def find_tls(url: str, error: Exception) -> InvalidOption | None:
    """The fault if a call without TLS broke because the other side wants TLS; blocks for a moment.

    Such a server only hangs up, so a handshake shows whether it is one.
    """
    if not url.startswith("http://") or isinstance(error, ConnectionRefusedError | TimeoutError):
        return None
    parts = urlsplit(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        address = (parts.hostname or "", parts.port or http.client.HTTP_PORT)
        with (
            socket.create_connection(address, timeout=_PROBE_SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=parts.hostname),
        ):
            pass
    except OSError:
        return None
    secure = url.replace("http://", "https://", 1)
    return InvalidOption(f"the master at {url} uses TLS: name it {secure}")


def check_answer(url: str, header: str | None, status: int, body: bytes) -> None:
    """Raises InvalidOption for an answer that certainly comes from another kind of server.

    Masters send JSON. A proxy before them has its own pages for a master that is out of reach.
    """
    if header is None and status < 500 and body.strip() and body.lstrip()[:1] not in (b"{", b"["):
        raise InvalidOption(
            f"what answers at {url} is not a Stoker master (HTTP status {status}); correct the "
            "host or port"
        )


def check_server(header: str | None) -> None:
    """Raises InvalidInput for a master that is too old for this client."""
    refused = explain_refused_server(header, __version__)
    if refused is not None:
        raise InvalidInput(refused)


def context_for(url: str, options: ClientOptions) -> ssl.SSLContext | None:
    """None for a master whose URL is not https://."""
    if not url.startswith("https://"):
        return None
    return client_context(options.authorities, options.certificate, options.key)


def is_cut_off(error: BaseException) -> bool:
    """Whether a TLS connection ended without a reason, as when a master dies: a retry may help."""
    return isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)


_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL"})
"""Reasons of OpenSSL for an answer that is not TLS at all."""


def untrusted(url: str, error: ssl.SSLError) -> InvalidOption:
    """A refused TLS handshake. InvalidOption, because no retry and no other master would help."""
    if error.reason in _NOT_TLS:
        plain = url.replace("https://", "http://", 1)
        return InvalidOption(
            f"what answers at {url} does not use TLS; if it is a master without TLS, name it "
            f"{plain}, else correct the host or port"
        )
    reason = getattr(error, "verify_message", "") or error.reason or str(error)
    return InvalidOption(
        f"the TLS handshake with {url} failed: {reason}; client.ssl.authorities must name the "
        "authorities that sign for the masters; if they ask for a certificate, give it as "
        "client.ssl.certificate and client.ssl.key"
    )

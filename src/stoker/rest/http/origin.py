"""Keeps foreign web pages from using a server on the visitor's own machine.

A page of another site can post a form to a server on loopback; then the Origin of the request
differs from its Host. Or the site lets its own name resolve to the loopback address; then the Host
is a name that this server does not have. Both are refused.
"""

import functools
import ipaddress
from urllib.parse import urlsplit

from stoker.rest.options import RestOptions
from stoker.security.binding import is_loopback

METHODS = "GET, POST, PUT, PATCH, DELETE"


def find_origin_refusal(host: str | None, origin: str | None, options: RestOptions) -> str | None:
    """The reason why a request must not be served, or None."""
    if (
        host is not None
        and is_loopback(options.bind_address)
        and not _is_own_name(host, options.address, options.bind_address)
    ):
        return (
            f"this server is not known as {host}; "
            "if that is one of its names, set rest.address to it"
        )
    if origin is None or _netloc(origin) == host or is_allowed(origin, options):
        return None
    return (
        f"requests from web pages of {origin} are refused; to allow them, set "
        "web.access-control-allow-origin"
    )


def is_allowed(origin: str, options: RestOptions) -> bool:
    """Whether web pages of this foreign origin may use the server."""
    allowed = [each.strip() for each in options.allow_origin.split(",")]
    return "*" in allowed or origin in allowed


def cors_headers(origin: str | None, options: RestOptions) -> list[tuple[bytes, bytes]]:
    """Headers without which a browser hides the answer from a page of another origin."""
    if origin is None or not is_allowed(origin, options):
        return []
    anyone = "*" in options.allow_origin
    allowed = b"*" if anyone else origin.encode("latin-1", "replace")
    headers = [(b"access-control-allow-origin", allowed)]
    return headers if anyone else [*headers, (b"vary", b"origin")]


def preflight_headers(requested_headers: bytes | None) -> list[tuple[bytes, bytes]]:
    return [
        (b"access-control-allow-methods", METHODS.encode()),
        (b"access-control-allow-headers", requested_headers or b"content-type"),
        (b"access-control-max-age", b"600"),
    ]


@functools.lru_cache(maxsize=64)
def _is_own_name(host: str, address: str | None, bind_address: str) -> bool:
    """Cached, since callers mostly use the same name."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name in ("localhost", address, bind_address):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None

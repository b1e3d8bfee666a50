"""Keeping foreign web pages from using a server on the visitor's own machine."""

import functools
import ipaddress
from urllib.parse import urlsplit

from stoker.rest.options import RestOptions
from stoker.security.binding import is_loopback

METHODS = "GET, POST, PUT, PATCH, DELETE"


def refusal(host: str | None, origin: str | None, options: RestOptions) -> str | None:
    """Why a request must not be served, or None.

    A page of another site can post a form to a server on loopback (its Origin differs), or let
    its own name point there (the Host is a name that we do not have).
    """
    if (
        host is not None
        and is_loopback(options.bind_address)
        and not _is_ours(host, options.address, options.bind_address)
    ):
        return (
            f"this server is not known as {host}; "
            "if it is meant to be, set rest.address to that name"
        )
    if origin is None or _netloc(origin) == host or is_allowed(origin, options):
        return None
    return (
        f"requests of web pages from {origin} are not served; if they are meant to be, set "
        "web.access-control-allow-origin"
    )


def is_allowed(origin: str, options: RestOptions) -> bool:
    """Whether pages of this other origin may use the server."""
    allowed = [each.strip() for each in options.allow_origin.split(",")]
    return "*" in allowed or origin in allowed


def access_headers(origin: str | None, options: RestOptions) -> list[tuple[bytes, bytes]]:
    """What a browser needs to hand an answer to a page of another origin."""
    if origin is None or not is_allowed(origin, options):
        return []
    anyone = "*" in options.allow_origin
    allowed = b"*" if anyone else origin.encode("latin-1", "replace")
    headers = [(b"access-control-allow-origin", allowed)]
    return headers if anyone else [*headers, (b"vary", b"origin")]


def preflight_headers(asked: bytes | None) -> list[tuple[bytes, bytes]]:
    return [
        (b"access-control-allow-methods", METHODS.encode()),
        (b"access-control-allow-headers", asked or b"content-type"),
        (b"access-control-max-age", b"600"),
    ]


@functools.lru_cache(maxsize=64)
def _is_ours(host: str, address: str | None, bind_address: str) -> bool:
    """Remembered: callers mostly call it by the same name."""
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

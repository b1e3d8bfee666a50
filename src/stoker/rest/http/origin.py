"""Keeps foreign web pages from using a server on the visitor's own machine.

A page of another site can post a form to a server on loopback; then the Origin of the request
differs from its Host. Or the site lets its own name resolve to the loopback address; then the Host
is a name that this server does not have. Or it names an address here as that of an image or a link;
such a request has no Origin, but browsers tell in Sec-Fetch-Site where it comes from. All three are
refused.
"""

import functools
import ipaddress
from urllib.parse import urlsplit

from stoker.core.errors import InvalidOption
from stoker.rest.options import RestOptions
from stoker.security.binding import is_loopback

METHODS = "GET, POST, PUT, PATCH, DELETE"
_OWN_SITES = (None, "none", "same-origin")
"""Values of Sec-Fetch-Site; `none` is a request of the user, None one of no browser."""


def find_origin_refusal(
    host: str | None, origin: str | None, site: str | None, options: RestOptions
) -> str | None:
    """The reason why a request must not be served, or None. `site` is its Sec-Fetch-Site."""
    if (
        host is not None
        and is_loopback(options.bind_address)
        and not _is_own_name(host, options.address, options.bind_address)
    ):
        return (
            f"this server is not known as {host}; "
            "if that is one of its names, set rest.address to it"
        )
    if origin is None and site not in _OWN_SITES and "*" not in _allowed_origins(options):
        return (
            "requests that a page of another site makes a browser send are refused; open the "
            "address itself, or set web.access-control-allow-origin"
        )
    if origin is None or _netloc(origin) == host or is_allowed(origin, options):
        return None
    return (
        f"requests from web pages of {origin} are refused; to allow them, set "
        "web.access-control-allow-origin"
    )


def is_allowed(origin: str, options: RestOptions) -> bool:
    """Whether web pages of this foreign origin may use the server."""
    allowed = _allowed_origins(options)
    return "*" in allowed or origin in allowed


def check_origins(options: RestOptions, *, authenticated: bool) -> None:
    """Raise InvalidOption where every page of the internet could command the cluster."""
    if not authenticated and "*" in _allowed_origins(options):
        raise InvalidOption(
            "web.access-control-allow-origin is * and nobody has to prove who they are, so every "
            "web page that somebody opens on this machine could run code here; name the origins "
            "that you need, or set security.rest.tokens"
        )


def _allowed_origins(options: RestOptions) -> list[str]:
    return [each.strip() for each in options.allow_origin.split(",")]


def cors_headers(origin: str | None, options: RestOptions) -> list[tuple[bytes, bytes]]:
    """Headers without which a browser hides the answer from a page of another origin."""
    if origin is None or not is_allowed(origin, options):
        return []
    anyone = "*" in _allowed_origins(options)
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

"""Keeping foreign web pages from using a server on the visitor's own machine."""

import ipaddress
from urllib.parse import urlsplit

from stoker.rest.options import RestOptions
from stoker.security.binding import is_loopback


def refusal(host: str | None, origin: str | None, options: RestOptions) -> str | None:
    """Why a request must not be served, or None.

    A page of another site can post a form to a server on loopback (its Origin differs), or let
    its own name point there (the Host is a name that we do not have).
    """
    if host is not None and is_loopback(options.bind_address) and not _is_ours(host, options):
        return (
            f"this server is not known as {host}; "
            "if it is meant to be, set rest.address to that name"
        )
    if origin is not None and urlsplit(origin).netloc != host:
        return f"requests of web pages from {origin} are not served"
    return None


def _is_ours(host: str, options: RestOptions) -> bool:
    name = urlsplit(f"//{host}").hostname or ""
    if name in ("localhost", options.address, options.bind_address):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

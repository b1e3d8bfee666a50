"""Where a process may listen: on this machine only, unless callers are authenticated."""

import functools
import ipaddress

from stoker.core.errors import InvalidOption


@functools.lru_cache(maxsize=64)
def is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def check_binding(address: str, key: str, *, authenticated: bool) -> None:
    """Raises InvalidOption when other machines could call without authentication."""
    if not authenticated and not is_loopback(address):
        raise InvalidOption(
            f"{key} {address} can be reached from other machines, but calls are not authenticated: "
            "use 127.0.0.1, or turn authentication on"
        )

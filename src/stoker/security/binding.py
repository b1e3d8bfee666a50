"""Where a process may listen, and under which address others find it.

It listens on this machine only, unless callers are authenticated. The address that it publishes
leads other processes to it, so it is never one that stands for all interfaces.
"""

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


def is_wildcard(address: str) -> bool:
    """Whether the address stands for all interfaces of the machine, and names none of them."""
    try:
        return not address or ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False


def advertised_host(bind: str, bind_key: str, address: str | None, address_key: str) -> str:
    """The address to publish; InvalidOption when it would lead other processes to themselves."""
    if is_wildcard(address or bind):
        key, value = (address_key, address) if address else (bind_key, bind)
        raise InvalidOption(
            f"{key} {value} stands for all addresses of this machine, and others cannot call it: "
            f"set {address_key} to the name or address at which they reach this process",
            key=address_key,
        )
    return address or bind


def check_binding(address: str, key: str, *, authenticated: bool) -> None:
    """Raises InvalidOption when other machines could call without authentication."""
    if not authenticated and not is_loopback(address):
        raise InvalidOption(
            f"{key} {address} can be reached from other machines, but calls are not authenticated: "
            "use 127.0.0.1, or turn authentication on"
        )


def check_token_transport(address: str, key: str, *, is_protected: bool) -> None:
    """Raises InvalidOption when tokens would cross a network in clear text."""
    if not is_protected and not is_loopback(address):
        raise InvalidOption(
            f"{key} {address} can be reached from other machines, and tokens would cross the "
            "network in clear text: set security.ssl.rest.enabled, or "
            "security.rest.allow-plain-tokens if a proxy in front of it does TLS"
        )

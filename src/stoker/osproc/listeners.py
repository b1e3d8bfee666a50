"""Whose processes listen on a TCP port of this machine, as the kernel tells every user."""

import ipaddress
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENING = "0A"


def users_listening_on(port: int) -> set[int]:
    """User ids of the processes that clients of a loopback address may reach at this port."""
    tables = []
    for path in _TABLES:
        # The second one is missing without IPv6.
        with suppress(OSError):
            tables.append(path.read_text())
    return {uid for table in tables for uid in listeners_in(table.splitlines()[1:], port)}


def listeners_in(rows: Iterable[str], port: int) -> set[int]:
    """The users in rows of /proc/net/tcp that listen on this port, on loopback or everywhere."""
    users = set()
    for fields in map(str.split, rows):
        address, _, number = fields[1].partition(":")
        if fields[3] == _LISTENING and int(number, 16) == port and _is_local(address):
            users.add(int(fields[7]))
    return users


def _is_local(text: str) -> bool:
    """Whether the address, in words of the byte order of this machine, is loopback or any."""
    numbers = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    words = [number.to_bytes(4, sys.byteorder) for number in numbers]
    address = ipaddress.ip_address(b"".join(words))
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    return address.is_loopback or address.is_unspecified

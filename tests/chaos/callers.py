"""Finds out from the kernel which process of a cluster has opened a connection."""

import os
import re
from pathlib import Path

_RESOURCE_ID = re.compile(r"-D(?:jobmanager|taskmanager)\.resource-id=([^\0]+)")
_LOCAL_ADDRESS, _INODE = 1, 9


def caller_from(port: int) -> str | None:
    """Name of the process whose end of a connection has this port; None for other processes."""
    inodes = set(_inodes_at(port))
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            name = _name_of(process)
            if name is not None and inodes & set(_sockets_of(process)):
                return name
    return None


def _inodes_at(port: int) -> list[str]:
    rows = [row for table in ("tcp", "tcp6") for row in _rows_of(Path("/proc/net") / table)]
    return [row[_INODE] for row in rows if int(row[_LOCAL_ADDRESS].rpartition(":")[2], 16) == port]


def _rows_of(table: Path) -> list[list[str]]:
    return [line.split() for line in table.read_text().splitlines()[1:]] if table.exists() else []


def _name_of(process: Path) -> str | None:
    try:
        found = _RESOURCE_ID.search((process / "cmdline").read_text(errors="replace"))
    except OSError:
        return None
    return found[1] if found else None


def _sockets_of(process: Path) -> list[str]:
    try:
        links = [os.readlink(link) for link in (process / "fd").iterdir()]
    except OSError:
        return []
    return [link[len("socket:[") : -1] for link in links if link.startswith("socket:[")]

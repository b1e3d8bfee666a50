"""Where the results and checkpoints of regions stand."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def safe_name(name: str) -> str:
    """A directory name for a vertex; different vertices never share one."""
    cleaned = _UNSAFE.sub("_", name)
    if cleaned == name:
        return name
    return f"{cleaned}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, kw_only=True)
class Place:
    url: str
    local: Path | None
    """The same as a path, when it is on this machine's file system."""


def place_below(root: str, name: str) -> Place:
    parts = urlsplit(root)
    url = f"{root.rstrip('/')}/{name}"
    if parts.scheme == "":
        return Place(url=url, local=Path(root) / name)
    if parts.scheme == "file":
        return Place(url=url, local=Path(unquote(parts.path)) / name)
    return Place(url=url, local=None)


def materialized_place(root: str, vertex: str) -> Place:
    return place_below(root, safe_name(vertex))


def checkpoint_place(root: str, region: str) -> Place:
    return place_below(root, safe_name(region))

"""Where the results and checkpoints of regions stand."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from stoker.core.ids import safe_name

__all__ = [
    "SparkDirectory",
    "checkpoint_place",
    "local_path",
    "materialized_place",
    "place_below",
    "safe_name",
]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, kw_only=True)
class SparkDirectory:
    url: str
    """As Spark takes it."""
    local: Path | None
    """The same as a path, when it is on this machine's file system."""


def place_below(root: str, name: str) -> SparkDirectory:
    parts = urlsplit(root)
    if parts.scheme == "":
        return SparkDirectory(url=f"{root.rstrip('/')}/{name}", local=Path(root) / name)
    if parts.scheme == "file":
        local = Path(unquote(parts.path)) / name
        # Spark takes a percent sign for itself, not for the beginning of an escape.
        return SparkDirectory(url=f"file://{local}", local=local)
    return SparkDirectory(url=f"{root.rstrip('/')}/{name}", local=None)


def local_path(path: str) -> Path | None:
    """A path as Spark takes it, when it is of this machine's file system."""
    if path.startswith("file:"):
        return Path("/" + path.removeprefix("file:").lstrip("/"))
    return None if _SCHEME.match(path) else Path(path)


def materialized_place(root: str, vertex: str) -> SparkDirectory:
    return place_below(root, safe_name(vertex))


def checkpoint_place(root: str, region: str) -> SparkDirectory:
    return place_below(root, safe_name(region))

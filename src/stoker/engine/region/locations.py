"""Directories of materialized results and of checkpoints, in the forms Spark and Python read."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from stoker.core.ids import safe_name

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, kw_only=True)
class SparkDirectory:
    url: str
    """URL or path in the form that Spark reads."""
    local: Path | None
    """The same directory as a path; None if it is not on this machine's file system."""


def directory_below(root: str, name: str) -> SparkDirectory:
    parts = urlsplit(root)
    if parts.scheme == "":
        return SparkDirectory(url=f"{root.rstrip('/')}/{name}", local=Path(root) / name)
    if parts.scheme == "file":
        local = Path(unquote(parts.path)) / name
        # Spark reads a percent sign literally, not as an escape.
        return SparkDirectory(url=f"file://{local}", local=local)
    return SparkDirectory(url=f"{root.rstrip('/')}/{name}", local=None)


def local_path(path: str) -> Path | None:
    """A path in Spark's form as a local path; None if it is not on this machine's file system."""
    if path.startswith("file:"):
        return Path("/" + path.removeprefix("file:").lstrip("/"))
    return None if _SCHEME.match(path) else Path(path)


def materialized_directory(root: str, vertex: str) -> SparkDirectory:
    return directory_below(root, safe_name(vertex))


def checkpoint_directory(root: str, region: str) -> SparkDirectory:
    return directory_below(root, safe_name(region))

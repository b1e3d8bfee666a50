"""Paths in the forms that Spark reads."""

import re
from pathlib import Path

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def local_path(path: str) -> Path | None:
    """A path in Spark's form as a local path; None if it is not on this machine's file system."""
    if path.startswith("file:"):
        return Path("/" + path.removeprefix("file:").lstrip("/"))
    return None if _SCHEME.match(path) else Path(path)

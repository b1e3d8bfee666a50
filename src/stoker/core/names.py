"""Names of users as names of files."""

import hashlib
import re

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def safe_name(name: str) -> str:
    """A directory name for a vertex; different vertices never share one."""
    cleaned = _UNSAFE.sub("_", name)
    if cleaned == name:
        return name
    return f"{cleaned}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"

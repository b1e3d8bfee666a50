"""The places that users name."""

from pathlib import Path
from urllib.parse import urlsplit


def absolute_location(text: str | None) -> str | None:
    """A relative path is meant from here, and the master is elsewhere."""
    if text is None or urlsplit(text).scheme:
        return text
    return str(Path(text).expanduser().absolute())

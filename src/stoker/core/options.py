"""How a part declares what can be set: a frozen dataclass whose fields are options.

Each part has an `options.py` of its own; `stoker.config` joins them into one tree, fills them
from file, environment and command line, and writes the reference page from them.
"""

from dataclasses import field
from typing import Any


def option(key: str, meaning: str, default: Any, *, secret: bool = False) -> Any:
    """A field of an options dataclass.

    `key` is the full dotted name that users write. Types allowed: bool, int, float, str, Path,
    timedelta, ByteSize, StrEnum, tuple[str, ...], dict[str, str], or any of these `| None`.
    """
    metadata = {"key": key, "meaning": meaning, "secret": secret}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


class ByteSize(int):
    """A number of bytes; users may write 64 mb, 1 gb, 4096."""

"""Options: how a part declares its settings, as the fields of a frozen dataclass.

Each part has its own `options.py`. `stoker.config` joins them into one tree, fills them from file,
environment and command line, and generates the reference page.
"""

import re
from dataclasses import field
from fractions import Fraction
from typing import Any


def option(key: str, meaning: str, default: Any, *, secret: bool = False) -> Any:
    """A field of an options dataclass.

    `key` is the full dotted name that users write. Allowed types: bool, int, float, str, Path,
    timedelta, ByteSize, StrEnum, tuple[str, ...], dict[str, str], or any of these `| None`.
    """
    metadata = {"key": key, "meaning": meaning, "secret": secret}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


class ByteSize(int):
    """A number of bytes; users write 64 mb, 1 gb or 4096."""


BYTES = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}
_BYTES_BY_NAME = {
    name: size
    for unit, size in BYTES.items()
    for name in {unit, unit[0], unit.replace("b", "ib") if len(unit) == 2 else "bytes"}
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


def read_size(text: str) -> ByteSize:
    """Raises ValueError when the text is not a whole number of bytes."""
    match = _SIZE.fullmatch(text.strip().lower())
    size = _BYTES_BY_NAME.get(match[2] or "b") if match else None
    if match is None or size is None:
        raise ValueError(f"{text!r} is not a size")
    # Exact for any number of digits, unlike Decimal.
    number = Fraction(match[1]) * size
    if number.denominator != 1:
        raise ValueError(f"{text!r} is not a size")
    return ByteSize(number)


def read_pair(text: str) -> tuple[str, str] | None:
    """Key and value of `key=value`; None when the text is not such a pair."""
    key, separator, value = text.partition("=")
    key = key.strip()
    return (key, value) if separator and key else None

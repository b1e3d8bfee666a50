"""Values: the base of everything that crosses a wire or a disk, and how stored JSON is read."""

from typing import dataclass_transform

import msgspec

Millis = int
"""Milliseconds since 1970, UTC."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True, kw_only=True):
    """Immutable record. Never rename a field, and give new fields defaults: old bytes must load."""

"""The format of stored records: JSON with a version."""

from typing import TypeVar

import msgspec

from stoker.core.errors import CorruptContent
from stoker.core.values import Value, decode_value

RECORD_VERSION = 1


class StoredRecord(Value, frozen=True, kw_only=True):
    v: int = RECORD_VERSION


R = TypeVar("R", bound=StoredRecord)


def encode(value: Value) -> bytes:
    """Encode so that equal values give equal bytes in every process."""
    return msgspec.json.encode(value, order="deterministic")


def decode_record(content: bytes, kind: type[R], where: str) -> R:
    record = decode_value(content, kind, where)
    if record.v != RECORD_VERSION:
        raise CorruptContent(
            f"{where} is a record of version {record.v}, and this release knows version "
            f"{RECORD_VERSION}; use the release that wrote it",
            where=where,
        )
    return record

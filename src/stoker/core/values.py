"""Values: what crosses a wire or a disk, and how stored JSON is read.

Releases read each other's bytes: a rolling upgrade mixes them on the wire, and records outlive the
release that wrote them. So a field of a `Value` is never renamed, and a new one has a default.
"""

from typing import TypeVar, dataclass_transform

import msgspec

from stoker.core.errors import CorruptContent
from stoker.core.ids import SessionId

T = TypeVar("T")

Millis = int
"""Milliseconds since 1970, UTC."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all records. Never rename a field, and give new fields defaults."""


def decode_json(content: bytes | str, kind: type[T]) -> T:
    """Raise `msgspec.DecodeError` for every fault of the content.

    msgspec itself raises other errors for a string that is not UTF-8 and for brackets nested
    without end. A caller that forgets one of them lets a single damaged byte crash it.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"it is not UTF-8 ({error.reason})") from error
    except RecursionError as error:
        raise msgspec.DecodeError("it is nested too deeply") from error


def decode_value(content: bytes, kind: type[T], where: str) -> T:
    """Decode the record stored at `where`; raise CorruptContent when that is impossible."""
    try:
        return decode_json(content, kind)
    except msgspec.DecodeError as error:
        raise CorruptContent(f"{where} cannot be understood: {error}", where=where) from error


class FencingToken(Value, order=False):
    """Identifies the leadership of one component under one grant.

    A caller sends the token of the leader that it means to reach, or its own as proof that it
    leads. A fenced endpoint accepts only its own token. A task executor remembers the last token of
    each job's master: it refuses a lower epoch, and adopts a higher one that the coordinator names.
    """

    epoch: int
    session: SessionId

    def __str__(self) -> str:
        return f"{self.epoch}:{self.session[:8]}"

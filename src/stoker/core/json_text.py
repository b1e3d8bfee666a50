"""JSON that somebody else wrote, or that a disk has kept."""

from typing import TypeVar

import msgspec

from stoker.core.errors import CorruptContent

T = TypeVar("T")


def decode_json(content: bytes | str, kind: type[T]) -> T:
    """What is wrong with it, whatever that is, comes as a `msgspec.DecodeError`.

    By itself msgspec has errors of other kinds for bytes that are no text inside of a string, and
    for brackets in brackets without end. Who forgets one of them lets a single damaged byte through
    to where nobody expects it.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"it is not UTF-8 ({error.reason})") from error
    except RecursionError as error:
        raise msgspec.DecodeError("it is nested too deeply") from error


def decode_value(content: bytes, kind: type[T], where: str) -> T:
    """Of a record that is kept there."""
    try:
        return decode_json(content, kind)
    except msgspec.DecodeError as error:
        raise CorruptContent(f"{where} cannot be understood: {error}", where=where) from error

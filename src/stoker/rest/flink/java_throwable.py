"""Write an error in the format of Java's serialization.

Flink's Java client reads the failure of a job only from a serialized Java object. The bytes written
here hold one object of Flink's SerializedThrowable; superclasses and fields that are left out get
their default values when the client reads it. Stoker never reads this format.
"""

import struct

from stoker.api.operations import FailureCause

_MAGIC_AND_VERSION = b"\xac\xed\x00\x05"
_NULL, _CLASS, _OBJECT, _STRING, _LONG_STRING, _END = b"p", b"r", b"s", b"t", b"|", b"x"
_SERIALIZABLE, _WITH_OWN_WRITE_METHOD = 2, 3
_SHORT = 0xFFFF

_THROWABLE = ("java.lang.Throwable", -3042686055658047285)
_EXCEPTION = ("java.lang.Exception", -3387516993124229948)
_SERIALIZED_THROWABLE = ("org.apache.flink.util.SerializedThrowable", 7284183123441947635)


def failure_cause(error: str, message: str, stack_trace: str) -> FailureCause:
    return FailureCause(
        error=error,
        stack_trace=stack_trace,
        serialized_throwable=serialized_throwable(error, message, stack_trace),
    )


def serialized_throwable(error: str, message: str, stack_trace: str) -> bytes:
    """A throwable with this message that prints this stack trace."""
    own_fields = ("fullStringifiedStackTrace", "originalErrorClassName")
    described = (
        _class(*_SERIALIZED_THROWABLE, _SERIALIZABLE, own_fields)
        + _class(*_EXCEPTION, _SERIALIZABLE, ())
        + _class(*_THROWABLE, _WITH_OWN_WRITE_METHOD, ("detailMessage",))
        + _NULL
    )
    # Values come from the superclass down; a class with a write method of its own ends with a mark.
    values = _text(message) + _END + _text(stack_trace) + _text(error)
    return _MAGIC_AND_VERSION + _OBJECT + described + values


def _class(name: str, version: int, flags: int, text_fields: tuple[str, ...]) -> bytes:
    fields = b"".join(b"L" + _name(each) + _text("Ljava/lang/String;") for each in text_fields)
    head = _CLASS + _name(name) + struct.pack(">qBH", version, flags, len(text_fields))
    return head + fields + _END


def _name(text: str) -> bytes:
    encoded = _modified_utf8(text)
    return struct.pack(">H", len(encoded)) + encoded


def _text(text: str) -> bytes:
    encoded = _modified_utf8(text)
    if len(encoded) > _SHORT:
        return _LONG_STRING + struct.pack(">Q", len(encoded)) + encoded
    return _STRING + struct.pack(">H", len(encoded)) + encoded


def _modified_utf8(text: str) -> bytes:
    """Java's variant of UTF-8: surrogates are encoded one by one, and no byte is zero."""
    units = text.encode("utf-16-be", "surrogatepass")
    halves = "".join(map(chr, struct.unpack(f">{len(units) // 2}H", units)))
    return halves.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")

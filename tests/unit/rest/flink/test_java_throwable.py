"""The serialized Java object of a failure, compared with bytes that Flink 2.3's class reads."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from stoker.rest.flink.java_throwable import failure_cause, serialized_throwable


def texts_in(content: bytes) -> list[str]:
    """All strings of the stream, in order."""
    found, at = [], 0
    while at < len(content):
        kind = content[at : at + 1]
        if kind == b"t":
            (length,) = struct.unpack_from(">H", content, at + 1)
            start = at + 3
        elif kind == b"|":
            (length,) = struct.unpack_from(">Q", content, at + 1)
            start = at + 9
        else:
            at += 1
            continue
        encoded = content[start : start + length].replace(b"\xc0\x80", b"\0")
        halves = encoded.decode("utf-8", "surrogatepass")
        found.append(halves.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace"))
        at = start + length
    return found


def test_a_failure_is_written_as_flinks_class_reads_it() -> None:
    content = serialized_throwable("E", "m", "s")

    assert content.startswith(b"\xac\xed\x00\x05sr\x00)org.apache.flink.util.SerializedThrowable")
    assert content.endswith(b"xpt\x00\x01mxt\x00\x01st\x00\x01E")


@given(st.text(max_size=20), st.text(max_size=20))
def test_every_text_survives_javas_encoding(message: str, trace: str) -> None:
    values = serialized_throwable("Error", message, trace).partition(b"detailMessage")[2]

    assert texts_in(values.partition(b"xp")[2]) == [message, trace, "Error"]


def test_a_text_of_more_than_64_kib_is_written_as_a_long_string() -> None:
    trace = "at somewhere\n" * 10_000

    values = serialized_throwable("Error", "m", trace).partition(b"detailMessage")[2]

    assert texts_in(values.partition(b"xp")[2]) == ["m", trace, "Error"]


def test_a_failure_has_a_name_a_trace_and_the_java_object() -> None:
    cause = failure_cause("JobFailed", "no", "JobFailed: no")

    assert (cause.error, cause.stack_trace) == ("JobFailed", "JobFailed: no")
    assert cause.serialized_throwable == serialized_throwable("JobFailed", "no", "JobFailed: no")

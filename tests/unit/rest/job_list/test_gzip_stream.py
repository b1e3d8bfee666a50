"""A gzip stream of parts that were packed by themselves is that of all of them."""

import gzip
import zlib

from hypothesis import given
from hypothesis import strategies as st

from stoker.rest.job_list.gzip_stream import gzip_stream, joined_checksum, packed, stored

CONTENTS = st.lists(
    st.tuples(st.binary(max_size=200), st.sampled_from([1, 1, 1, 400]), st.booleans()), max_size=10
)
"""Longer ones have more than a block of the format holds."""


@given(contents=CONTENTS, chunk=st.integers(1, 300))
def test_whatever_was_packed_or_stored_comes_out_in_its_order(
    contents: list[tuple[bytes, int, bool]], chunk: int
) -> None:
    repeated = [(text * times, pack) for text, times, pack in contents]
    parts = [packed(text) if pack else stored(text) for text, pack in repeated]
    pieces = gzip_stream(parts, chunk)
    stream, whole = b"".join(pieces), b"".join(text for text, _ in repeated)
    assert gzip.decompress(stream) == whole
    # As browsers and httpx read it: to the end of the first member, and no further.
    reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
    assert reader.decompress(stream) == whole
    assert reader.eof
    assert reader.unused_data == b""


@given(first=st.binary(), second=st.binary())
def test_a_checksum_is_that_of_both_contents(first: bytes, second: bytes) -> None:
    joined = joined_checksum(zlib.crc32(first), zlib.crc32(second), len(second))
    assert joined == zlib.crc32(first + second)


def test_pieces_are_about_as_long_as_was_asked_for() -> None:
    pieces = gzip_stream([stored(bytes(100)) for _ in range(100)], chunk=1000)
    assert len(pieces) > 5
    assert all(1000 <= len(piece) < 1200 for piece in pieces[:-1])

"""A program may write without end; its log does not grow without end."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.osproc.bounded_log import BoundedLog

writes = st.lists(st.binary(max_size=50), max_size=30)


def kept(pieces: list[bytes], limit: int, tail: int) -> bytes:
    log = BoundedLog(limit, tail)
    return b"".join(log.feed(piece) for piece in pieces) + log.finish()


@given(writes, st.integers(0, 100), st.integers(1, 100))
def test_what_fits_is_kept_as_it_is(pieces: list[bytes], more: int, tail: int) -> None:
    written = b"".join(pieces)
    assert kept(pieces, len(written) + more, tail) == written


@given(writes, st.integers(0, 200), st.integers(1, 100))
def test_a_log_that_is_too_long_keeps_its_beginning_and_its_end(
    pieces: list[bytes], limit: int, tail: int
) -> None:
    written = b"".join(pieces)
    found = kept(pieces, limit, tail)
    assert found.startswith(written[:limit])
    if len(written) > limit:
        assert found.endswith(written[limit:][-tail:])
        assert b"this log is full" in found
        assert (b"left out" in found) == (len(written) > limit + tail)


@given(writes, st.integers(0, 200), st.integers(1, 100))
def test_no_log_is_larger_than_its_bounds(pieces: list[bytes], limit: int, tail: int) -> None:
    notes = 200
    assert len(kept(pieces, limit, tail)) <= limit + tail + notes

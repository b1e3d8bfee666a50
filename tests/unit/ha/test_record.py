"""A record with any kind of damage is read or reported as damaged; no other error escapes."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import build_graph
from stoker.core.errors import CorruptContent
from stoker.core.graph import JobGraph
from stoker.core.values import decode_value
from stoker.ha.record import decode_record, encode
from stoker.ha.stores.job_graphs import JobRecord

GRAPH = build_graph(name="größer", configuration={"spark.ui.enabled": "false"})
RECORD = JobRecord(
    job_id=GRAPH.job_id, name="größer", pointer="p", digest="d", nonce="n", submitted_at=1
)


@given(st.integers(min_value=0), st.binary(max_size=3))
def test_a_damaged_record_is_read_or_reported_as_damaged(place: int, put: bytes) -> None:
    for value, kind in ((GRAPH, JobGraph), (RECORD, JobRecord)):
        content = encode(value)
        at = place % len(content)
        damaged = content[:at] + put + content[at + 1 :]
        with suppress(CorruptContent):
            decode_value(damaged, kind, "here")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "truncated"),
        (encode(RECORD).replace("größer".encode(), b"gr\xffer"), "it is not UTF-8"),
        (b'{"more": ' + b"[" * 100_000, "nested too deeply"),
    ],
)
def test_the_error_names_the_reason(content: bytes, reason: str) -> None:
    with pytest.raises(CorruptContent, match=reason):
        decode_record(content, JobRecord, "here")

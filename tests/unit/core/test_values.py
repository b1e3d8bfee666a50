"""Reading stored JSON, intact or damaged."""

import msgspec
import pytest

from stoker.core.errors import CorruptContent
from stoker.core.graph import JobGraph
from stoker.core.values import decode_json, decode_value

UNREADABLE = [b"", b"{", b"[]", b'{"name": 1}', b"\xff", b'{"name": "\xff"}', b"[" * 100_000]


@pytest.mark.parametrize("content", UNREADABLE)
def test_every_fault_in_json_raises_the_same_kind_of_error(content: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_json(content, JobGraph)


@pytest.mark.parametrize("content", UNREADABLE)
def test_a_damaged_record_is_reported_with_its_place(content: bytes) -> None:
    with pytest.raises(CorruptContent, match=r"jobs/a/graph\.json") as raised:
        decode_value(content, JobGraph, "jobs/a/graph.json")
    assert raised.value.facts["where"] == "jobs/a/graph.json"

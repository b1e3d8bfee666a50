"""Compression of responses."""

import pytest

from stoker.rest.http.compression import accepts_gzip
from stoker.testing.rest import Master


async def test_a_large_answer_is_compressed_for_clients_that_accept_gzip() -> None:
    async with Master().in_process() as http:
        packed = await http.get("/openapi.json", headers={"accept-encoding": "gzip"})
        plain = await http.get("/openapi.json", headers={"accept-encoding": "identity"})
        small = await http.get("/overview", headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(plain.content) / 4
    assert packed.content == plain.content
    assert "content-encoding" not in plain.headers
    assert "content-encoding" not in small.headers


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        (None, False),
        (b"", False),
        (b"br", False),
        (b"gzip", True),
        (b"br, GZIP;q=0.5", True),
        (b"gzip; q=0", False),
        (b"*", True),
    ],
)
def test_the_accepted_encodings_are_read_from_the_header(
    header: bytes | None, accepted: bool
) -> None:
    assert accepts_gzip(header) is accepted

"""The calls to Spark for each batch, recorded without Spark."""

import pytest

from stoker.core.errors import InvalidInput
from stoker.sinks import files_by_batch, upsert_to_postgres


class RecordingWriter:
    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.write = self

    def format(self, name: str) -> "RecordingWriter":
        return self.record("format", name)

    def mode(self, name: str) -> "RecordingWriter":
        return self.record("mode", name)

    def options(self, **options: str) -> "RecordingWriter":
        return self.record("options", options)

    def save(self, path: str) -> None:
        self.record("save", path)

    def record(self, *call: object) -> "RecordingWriter":
        self.calls.append(call)
        return self


def test_a_repeated_batch_replaces_its_own_directory() -> None:
    frame = RecordingWriter()
    write = files_by_batch("/out/", format="json", compression="gzip")
    write(frame, 7)
    write(frame, 7)
    once = [
        ("format", "json"),
        ("mode", "overwrite"),
        ("options", {"compression": "gzip"}),
        ("save", "/out/batch_id=7"),
    ]
    assert frame.calls == once * 2


def test_an_upsert_without_keys_is_refused_when_it_is_defined() -> None:
    with pytest.raises(InvalidInput, match="needs keys"):
        upsert_to_postgres("postgresql://", "totals", keys=[])

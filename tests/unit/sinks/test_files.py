"""What is asked of Spark for each batch, without Spark."""

import pytest

from stoker.core.errors import InvalidInput
from stoker.sinks import files_by_batch, upsert_to_postgres


class NotedWriter:
    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.write = self

    def format(self, name: str) -> "NotedWriter":
        return self.noted("format", name)

    def mode(self, name: str) -> "NotedWriter":
        return self.noted("mode", name)

    def options(self, **options: str) -> "NotedWriter":
        return self.noted("options", options)

    def save(self, path: str) -> None:
        self.noted("save", path)

    def noted(self, *call: object) -> "NotedWriter":
        self.calls.append(call)
        return self


def test_a_repeated_batch_replaces_its_own_directory() -> None:
    frame = NotedWriter()
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


def test_an_upsert_without_keys_is_refused_when_it_is_written() -> None:
    with pytest.raises(InvalidInput, match="needs keys"):
        upsert_to_postgres("postgresql://", "totals", keys=[])

"""Damage is named, and the last good batch is found."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import InvalidInput, NotFound
from stoker.savepoints.doctor import CrcCheck
from stoker.savepoints.examination import Examination, cut_back, examine
from stoker.storage.memory import MemoryStorage
from unit.savepoints.checkpoint_files import FakeQuery


class Patient:
    def __init__(self) -> None:
        self.storage = MemoryStorage()
        self.query = FakeQuery(self.storage, "out")
        self.query.run(2)
        self.query.snapshot()
        self.query.run(3)

    def file(self, path: str) -> str:
        return f"{self.query.root}/{path}"

    async def examined(self) -> Examination:
        return await examine(f"/storage/{self.query.root}", self._open)

    def _open(self, url: str) -> MemoryStorage:
        """A storage for the folder above, as a real one would be opened."""
        inner = MemoryStorage()
        prefix = url.removeprefix("/storage").strip("/")
        inner.files = _Below(self.storage.files, f"{prefix}/" if prefix else "")
        return inner


class _Below(dict):
    def __init__(self, files: dict[str, bytes], prefix: str) -> None:
        super().__init__(
            {p.removeprefix(prefix): c for p, c in files.items() if p.startswith(prefix)}
        )
        self._all, self._prefix = files, prefix

    def __setitem__(self, path: str, content: bytes) -> None:
        super().__setitem__(path, content)
        self._all[f"{self._prefix}{path}"] = content


async def test_a_whole_checkpoint_is_sound():
    examination = await Patient().examined()
    assert examination.is_sound
    assert examination.queries[0].last_good == 4


@pytest.mark.parametrize(
    ("path", "last_good", "words"),
    [
        ("state/0/1/4.changelog", 2, "state/0/1 lacks the changes that lead to version 4"),
        ("state/0/0/SSTs/2-0.sst", None, "SSTs/2-0.sst: it is missing, and state/0/0/2.zip"),
        ("commits/4", 3, ""),
        ("offsets/4", 3, "offsets/4 is missing"),
        ("metadata", None, "metadata is missing"),
    ],
)
async def test_a_missing_file_is_named_and_the_last_good_batch_found(
    path: str, last_good: int | None, words: str
):
    patient = Patient()
    del patient.storage.files[patient.file(path)]
    (query,) = (await patient.examined()).queries
    assert query.last_good == last_good or (last_good is None and query.last_good in (None, 0, 1))
    assert any(words in str(damage) for damage in query.damages) or not words


async def test_an_empty_commit_file_is_damage_and_the_batch_before_it_is_good():
    patient = Patient()
    patient.storage.files[patient.file("commits/4")] = b""
    (query,) = (await patient.examined()).queries
    assert query.last_good == 3
    assert [str(damage) for damage in query.damages] == ["commits/4 is empty"]


async def test_a_foreign_directory_is_recognized():
    patient = Patient()
    patient.storage.files = {"jobs/x/readme.txt": b"hello"}
    examination = await examine("/storage/jobs/x", patient._open)
    assert "not the checkpoint of a streaming query" in str(examination.queries[0].damages[0])
    with pytest.raises(NotFound):
        await examine("/storage/jobs/y", patient._open)


async def test_a_copy_cut_back_to_the_last_good_batch_is_sound():
    patient = Patient()
    del patient.storage.files[patient.file("state/0/1/4.changelog")]
    before = dict(patient.storage.files)
    await cut_back(await patient.examined(), "/storage/cut/copy", patient._open)
    copy = await examine("/storage/cut/copy", patient._open)
    assert copy.is_sound
    assert copy.queries[0].last_good == 2
    assert {p: c for p, c in patient.storage.files.items() if not p.startswith("cut/")} == before
    with pytest.raises(InvalidInput, match="not empty"):
        await cut_back(await patient.examined(), "/storage/cut/copy", patient._open)


def checksums_of(content: bytes, piece: int) -> bytes:
    pieces = [content[at : at + piece] for at in range(0, len(content), piece)]
    return (
        b"crc\0"
        + struct.pack(">i", piece)
        + b"".join(zlib.crc32(each).to_bytes(4, "big") for each in pieces)
    )


@given(st.binary(max_size=300), st.integers(1, 64), st.data())
def test_a_changed_byte_is_always_found(content: bytes, piece: int, data: st.DataObject):
    checksums = checksums_of(content, piece)
    check = CrcCheck(checksums)
    assert check.feed(content[:100])
    assert check.feed(content[100:])
    assert check.finish()
    if content:
        at = data.draw(st.integers(0, len(content) - 1))
        changed = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        check = CrcCheck(checksums)
        assert not (check.feed(changed) and check.finish())
        check = CrcCheck(checksums)
        assert not (check.feed(content[:-1]) and check.finish()) or len(content) == 0

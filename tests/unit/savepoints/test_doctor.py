"""The doctor names damage and finds the last good batch."""

import io
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import InvalidInput, NotFound
from stoker.savepoints import doctor
from stoker.savepoints.doctor import matches_checksums
from stoker.savepoints.examination import Examination, cut_back, examine
from stoker.storage.files import FileStorage
from stoker.storage.memory import MemoryStorage
from unit.savepoints.checkpoint_files import FakeQuery, bomb


class CheckpointUnderTest:
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
        """A storage for the folder of the URL, like a real storage that is opened."""
        inner = MemoryStorage()
        prefix = url.removeprefix("/storage").strip("/")
        inner.files = _FilesBelow(self.storage.files, f"{prefix}/" if prefix else "")
        return inner


class _FilesBelow(dict):
    def __init__(self, files: dict[str, bytes], prefix: str) -> None:
        super().__init__(
            {p.removeprefix(prefix): c for p, c in files.items() if p.startswith(prefix)}
        )
        self._all, self._prefix = files, prefix

    def __setitem__(self, path: str, content: bytes) -> None:
        super().__setitem__(path, content)
        self._all[f"{self._prefix}{path}"] = content


async def test_a_complete_checkpoint_is_sound():
    examination = await CheckpointUnderTest().examined()
    assert examination.is_sound
    assert not examination.is_savepoint
    (query,) = examination.queries
    assert (query.query, query.last_good, query.last_commit) == ("out", 4, 4)
    assert query.damages == ()


DAMAGES = [
    ("state/0/1/4.changelog", 2, ["state/0/1 lacks the changes that lead to version 4"]),
    ("state/0/0/5.changelog", 3, ["state/0/0 lacks the changes that lead to version 5"]),
    (
        "state/0/0/SSTs/2-0.sst",
        0,
        ["state/0/0/SSTs/2-0.sst: it is missing, and state/0/0/2.zip needs it"],
    ),
    ("offsets/4", 3, ["offsets/4 is missing"]),
    ("metadata", None, ["the file metadata is missing, which holds the query's id"]),
]


@pytest.mark.parametrize(("path", "last_good", "words"), DAMAGES)
async def test_a_missing_file_is_named_and_the_last_good_batch_found(
    path: str, last_good: int | None, words: list[str]
):
    checkpoint = CheckpointUnderTest()
    del checkpoint.storage.files[checkpoint.file(path)]
    examination = await checkpoint.examined()
    (query,) = examination.queries
    assert not examination.is_sound
    assert (query.last_good, query.last_commit) == (last_good, 4)
    assert [str(damage) for damage in query.damages] == words


async def test_a_batch_without_a_commit_does_not_count_as_damage():
    checkpoint = CheckpointUnderTest()
    del checkpoint.storage.files[checkpoint.file("commits/4")]
    (query,) = (await checkpoint.examined()).queries
    assert (query.last_good, query.last_commit, query.damages) == (3, 3, ())


@pytest.mark.parametrize(
    ("path", "content", "last_good", "words"),
    [
        ("commits/4", b"", 3, "commits/4 is empty"),
        ("commits/4", b"v1", 3, "commits/4 is cut off after its first line"),
        ("commits/4", b"hello", 3, "commits/4 does not begin with a version: 'hello'"),
        ("offsets/4", b"v1\n{", 3, "offsets/4 is incomplete: "),
        ("metadata", b"{}", None, "metadata holds no query id"),
        ("state/0/1/2.zip", b"PK", 0, "state/0/1/2.zip is not a complete snapshot: "),
        ("state/0/1/2.zip", bomb(), 0, "it would unpack to 2147483648 bytes"),
        ("state/0/0/SSTs/2-0.sst", b"rows", 0, "SSTs/2-0.sst: it has 4 bytes instead of 9"),
    ],
)
async def test_a_file_with_other_content_is_named_and_the_last_good_batch_found(
    path: str, content: bytes, last_good: int | None, words: str
):
    checkpoint = CheckpointUnderTest()
    checkpoint.storage.files[checkpoint.file(path)] = content
    (query,) = (await checkpoint.examined()).queries
    assert (query.last_good, query.last_commit) == (last_good, 4)
    (damage,) = query.damages
    assert words in str(damage)
    assert damage.file == path


async def test_a_changed_byte_is_found_by_the_checksum_file():
    checkpoint = CheckpointUnderTest()
    files, path = checkpoint.storage.files, checkpoint.file("state/0/1/4.changelog")
    files[checkpoint.file("state/0/1/.4.changelog.crc")] = checksums_of(files[path], 512)
    assert (await checkpoint.examined()).is_sound
    files[path] = files[path].upper()
    (query,) = (await checkpoint.examined()).queries
    assert query.last_good == 2
    assert [str(damage) for damage in query.damages] == [
        "state/0/1/4.changelog: its content differs from what Spark wrote (wrong checksum)"
    ]


async def test_a_file_that_a_running_query_deletes_during_the_examination_is_no_damage():
    checkpoint = CheckpointUnderTest()
    opened = PurgedWhileRead(["commits/0", "offsets/0", "state/0/0/1.changelog"])
    folder, _, name = checkpoint.query.root.rpartition("/")
    opened.files = dict(_FilesBelow(checkpoint.storage.files, f"{folder}/"))
    examination = await examine(f"/{folder}/{name}", lambda _url: opened)
    assert opened.purged == []
    assert examination.is_sound
    assert examination.queries[0].last_good == 4


class PurgedWhileRead(MemoryStorage):
    """A storage from which some files vanish at the moment at which they are looked at."""

    def __init__(self, purged: list[str]) -> None:
        super().__init__()
        self.purged = purged

    async def _turn(self, operation: str, path: str) -> None:
        await super()._turn(operation, path)
        inside = path.partition("/")[2]
        if operation in ("size", "read") and inside in self.purged:
            self.purged.remove(inside)
            del self.files[path]


async def test_state_without_a_description_is_reported_and_still_usable():
    checkpoint = CheckpointUnderTest()
    del checkpoint.storage.files[checkpoint.file("state/0/_metadata/metadata")]
    examination = await checkpoint.examined()
    (query,) = examination.queries
    assert not examination.is_sound
    assert query.last_good == query.last_commit == 4
    (damage,) = query.damages
    assert damage.file == "state/0/_metadata/metadata"
    assert "Spark continues and writes it again, but does not notice" in str(damage)


async def test_an_operator_that_is_described_for_each_batch_needs_no_other_description():
    """Spark describes transformWithState in this way."""
    checkpoint = CheckpointUnderTest()
    files = checkpoint.storage.files
    described = files.pop(checkpoint.file("state/0/_metadata/metadata"))
    files[checkpoint.file("state/0/_metadata/v2/0")] = described
    assert (await checkpoint.examined()).is_sound
    gone = [path for path in files if "/state/0/1/" in path]
    for path in gone:
        del files[path]
    (query,) = (await checkpoint.examined()).queries
    assert [damage.file for damage in query.damages] == ["state/0/1"]


async def test_a_missing_partition_is_named():
    checkpoint = CheckpointUnderTest()
    gone = [path for path in checkpoint.storage.files if "/state/0/1/" in path]
    for path in gone:
        del checkpoint.storage.files[path]
    (query,) = (await checkpoint.examined()).queries
    assert query.last_good is None
    assert [str(damage) for damage in query.damages] == [
        "state/0/1 is missing: the state of partition 1 of stateStoreSave"
    ]
    with pytest.raises(InvalidInput, match="no batch of out is complete"):
        await cut_back(await checkpoint.examined(), "/storage/cut/copy", checkpoint._open)


@given(st.data())
async def test_the_loss_of_any_file_that_the_last_batch_needs_is_noticed(data: st.DataObject):
    """The copy after a cut is sound, too, whichever file was lost."""
    checkpoint = CheckpointUnderTest()
    (whole,) = (await checkpoint.examined()).queries
    lost = data.draw(st.sampled_from(whole.files))
    del checkpoint.storage.files[checkpoint.file(lost)]
    examination = await checkpoint.examined()
    (query,) = examination.queries
    # Other offsets and commits are history; all changes together can replace a snapshot.
    if lost in ("metadata", "offsets/4", "commits/4") or lost.endswith((".changelog", ".sst")):
        assert query.last_good != whole.last_good
    if query.last_good is not None:
        await cut_back(examination, "/storage/cut/copy", checkpoint._open)
        copy = await examine("/storage/cut/copy", checkpoint._open)
        assert copy.queries[0].last_good == query.last_good
        # The description of an operator applies to all batches, so no cut restores it.
        assert copy.is_sound != lost.endswith("/_metadata/metadata")


async def test_the_damaged_one_of_several_queries_is_named():
    checkpoint = CheckpointUnderTest()
    other = FakeQuery(checkpoint.storage, "other")
    other.run(2)
    del checkpoint.storage.files[checkpoint.file("offsets/4")]
    root = checkpoint.query.root.rpartition("/")[0]
    examination = await examine(f"/storage/{root}", checkpoint._open)
    found = {each.query: (each.last_good, each.is_sound) for each in examination.queries}
    assert found == {"other": (1, True), "out": (3, False)}


async def test_a_foreign_directory_is_recognized():
    checkpoint = CheckpointUnderTest()
    checkpoint.storage.files = {"jobs/x/readme.txt": b"hello"}
    examination = await examine("/storage/jobs/x", checkpoint._open)
    assert "not the checkpoint of a streaming query" in str(examination.queries[0].damages[0])
    with pytest.raises(NotFound):
        await examine("/storage/jobs/y", checkpoint._open)


async def test_a_copy_cut_back_to_the_last_good_batch_is_sound():
    checkpoint = CheckpointUnderTest()
    del checkpoint.storage.files[checkpoint.file("state/0/1/4.changelog")]
    before = dict(checkpoint.storage.files)
    await cut_back(await checkpoint.examined(), "/storage/cut/copy", checkpoint._open)
    copy = await examine("/storage/cut/copy", checkpoint._open)
    assert copy.is_sound
    assert copy.queries[0].last_good == 2
    assert {p: c for p, c in checkpoint.storage.files.items() if not p.startswith("cut/")} == before
    with pytest.raises(InvalidInput, match="not empty"):
        await cut_back(await checkpoint.examined(), "/storage/cut/copy", checkpoint._open)


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
    assert matches_checksums(io.BytesIO(content), checksums)
    if content:
        at = data.draw(st.integers(0, len(content) - 1))
        changed = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        assert not matches_checksums(io.BytesIO(changed), checksums)
        assert not matches_checksums(io.BytesIO(content[:-1]), checksums)


@pytest.mark.parametrize("checksums", [b"", b"crc", b"xyz\0\0\0\2\0", b"crc\0\0\0\0\0"])
def test_a_checksum_file_that_cannot_be_read_is_no_sign_of_damage(checksums: bytes):
    assert matches_checksums(io.BytesIO(b"content"), checksums)


@given(st.binary(max_size=300), st.integers(1, 64), st.integers(1, 64))
def test_the_pieces_of_a_file_may_be_larger_than_what_is_read_at_once(
    content: bytes, piece: int, at_once: int
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor, "_LARGEST_READ", at_once)
        assert matches_checksums(io.BytesIO(content), checksums_of(content, piece))


@pytest.mark.parametrize("is_local", [True, False])
async def test_a_large_file_is_compared_with_its_checksums_but_not_loaded_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_local: bool
):
    class Unloaded(FileStorage if is_local else MemoryStorage):  # type: ignore[misc]
        async def read(self, path: str, *, limit: int | None = None) -> bytes:
            assert not path.endswith("1.changelog")
            return await super().read(path, limit=limit)

    written = MemoryStorage()
    query = FakeQuery(written, "out")
    query.run(3)
    large = f"{query.root}/state/0/0/1.changelog"
    folder, _, name = large.rpartition("/")
    written.files[f"{folder}/.{name}.crc"] = checksums_of(written.files[large], 4)
    storage = Unloaded(tmp_path) if is_local else Unloaded()
    for path, content in written.files.items():
        await storage.write(path.replace(query.root, "one", 1), content)
    monkeypatch.setattr("stoker.savepoints.examination.LARGEST_IN_MEMORY", 4)
    assert (await examine("/saved/one", lambda _: storage)).is_sound
    await storage.write(f"one/state/0/0/{name}", b"damaged 1")
    (diagnosis,) = (await examine("/saved/one", lambda _: storage)).queries
    assert [str(damage) for damage in diagnosis.damages] == [
        f"state/0/0/{name}: its content differs from what Spark wrote (wrong checksum)"
    ]

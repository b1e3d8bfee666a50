"""Taking and restoring savepoints in an in-memory storage while the query continues."""

import asyncio
import errno
import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core.errors import (
    InvalidInput,
    SavepointFailed,
    StorageUnavailable,
    UnusableSavepoint,
)
from stoker.core.failpoints import SAVEPOINT_FAILPOINTS, armed
from stoker.core.ids import JobId, RegionId
from stoker.savepoints.catalog import dispose, list_savepoints
from stoker.savepoints.doctor import Evidence, diagnose, needs_content
from stoker.savepoints.layout import cut_at, layout_of
from stoker.savepoints.locations import locate, parent_and_name, read_manifest
from stoker.savepoints.manifest import MANIFEST, decode_manifest
from stoker.savepoints.restore import read_restore_record, restore, verify
from stoker.savepoints.take import SavepointHeader, SavepointWriter, checkpoint_folder
from stoker.storage.files import FileStorage
from stoker.storage.memory import MemoryStorage
from unit.savepoints.checkpoint_files import JOB, FakeQuery, streaming_graph

OTHER = JobId("b" * 32)
PATH = "/saved/one"


class World:
    """The storage of a cluster, and a separate storage for savepoints."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()
        self.saved = MemoryStorage()

    def open(self, _url: str) -> MemoryStorage:
        return self.saved

    async def take(self, *regions: str, path: str = PATH):
        writer = SavepointWriter(
            self.storage,
            streaming_graph(*regions),
            locate(path, self.open),
            SavepointHeader(savepoint_id="one", kind="savepoint", at=1),
        )
        return await writer.write([RegionId(region) for region in regions])

    async def restore(self, *regions: str, path: str = PATH):
        location = locate(path, self.open)
        manifest = await read_manifest(location)
        return await restore(location, manifest, self.storage, OTHER, regions=regions, now=2)

    def checkpoint(self, job_id: JobId, region: str) -> dict[str, bytes]:
        folder = checkpoint_folder(job_id, region)
        found = [path for path in self.storage.files if path.startswith(f"{folder}/")]
        return {path.removeprefix(f"{folder}/"): self.storage.files[path] for path in found}


async def test_a_savepoint_names_batches_positions_and_files_with_checksums():
    world = World()
    query = FakeQuery(world.storage, "out")
    query.run(3)
    manifest = await world.take("out")
    (saved,) = manifest.queries
    assert (saved.batch_id, saved.query_id, saved.pending) == (2, "id-of-out", False)
    assert saved.offsets == ('{"logOffset": 2}',)
    assert saved.shuffle_partitions == 2
    assert [operator.name for operator in saved.operators] == ["stateStoreSave"]
    assert {file.path for file in manifest.files} == {
        path.removeprefix("one/") for path in world.saved.files if not path.endswith(MANIFEST)
    }
    assert await verify(locate(PATH, world.open), manifest) == []
    assert not [path for path in world.storage.files if "/pins/" in path]


async def test_before_the_first_commit_the_plan_tells_the_number_of_partitions():
    world = World()
    FakeQuery(world.storage, "out", partitions=3).plan()
    (saved,) = (await world.take("out")).queries
    assert (saved.batch_id, saved.pending, saved.offsets) == (None, True, ())
    assert saved.shuffle_partitions == 3


async def test_a_restored_checkpoint_equals_the_saved_one_except_for_its_query_id():
    world = World()
    query = FakeQuery(world.storage, "out")
    query.run(2)
    query.snapshot()
    query.run(2)
    await world.take("out")
    record = await world.restore("out")
    assert record.batches == {"out": 3}
    restored = world.checkpoint(OTHER, "out")
    assert cut_at(layout_of(restored), 3).gaps == ()
    assert json.loads(restored.pop("metadata"))["id"] != "id-of-out"
    original = world.checkpoint(JOB, "out")
    assert all(original[path] == content for path, content in restored.items())
    assert await read_restore_record(world.storage, OTHER) == record


class PurgingStorage(MemoryStorage):
    """A storage at whose every access the query runs on and purges files."""

    query: FakeQuery | None = None
    left = 0

    async def _turn(self, operation: str, path: str) -> None:
        await super()._turn(operation, path)
        if self.query is not None and self.left > 0 and operation in ("list", "pin"):
            self.left -= 1
            self.query.run(2)
            self.query.snapshot()
            self.query.purge(1)


@settings(deadline=None)
@given(st.integers(0, 60))
async def test_commits_and_purges_during_a_savepoint_leave_a_complete_one_or_none(turns: int):
    """A complete one restores to the batch that it names (CKPT-06)."""
    world = World()
    storage = world.storage = PurgingStorage()
    query = storage.query = FakeQuery(storage, "out")
    query.run(3)
    storage.left = turns
    try:
        manifest = await world.take("out")
    except SavepointFailed:
        # Files were purged before they could be pinned, eight times: no file may remain.
        assert world.saved.files == {}
        return
    storage.left = 0
    batch = manifest.queries[0].batch_id
    assert batch is not None
    await world.restore("out")
    restored = world.checkpoint(OTHER, "out")
    layout = layout_of(restored)
    assert layout.last_commit == batch
    cut = cut_at(layout, batch)
    assert cut.gaps == ()
    for snapshot in cut.snapshots:
        assert any(path.startswith(f"{snapshot.rpartition('/')[0]}/SSTs/") for path in restored)


async def test_a_query_without_a_batch_is_saved_as_starting_from_scratch():
    world = World()
    FakeQuery(world.storage, "out")
    manifest = await world.take("out", "never-started")
    assert [query.batch_id for query in manifest.queries] == [None, None]
    assert (await world.restore("out")).batches == {}


async def test_a_damaged_checkpoint_gives_no_savepoint_and_says_which_file():
    world = World()
    query = FakeQuery(world.storage, "out")
    query.run(3)
    del world.storage.files[f"{query.root}/state/0/1/2.changelog"]
    with pytest.raises(SavepointFailed, match=r"state/0/1 lacks .* version 2"):
        await world.take("out")
    assert world.saved.files == {}


async def test_a_damaged_file_of_the_job_gives_no_savepoint_and_is_named():
    world = World()
    FakeQuery(world.storage, "out").run(1)
    world.storage.files["jobs/file"] = b"damaged"
    header = SavepointHeader(savepoint_id="one", kind="savepoint", at=1)
    writer = SavepointWriter(
        world.storage,
        streaming_graph("out"),
        locate(PATH, world.open),
        header,
        artifacts={hashlib.sha256(b"sound").hexdigest(): "jobs/file"},
    )
    with pytest.raises(SavepointFailed, match=r"jobs/file is damaged .* from a backup"):
        await writer.write([RegionId("out")])
    assert world.saved.files == {}


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        ("commits/2", b"", "commits/2 is empty"),
        ("commits/2", b"v1", "commits/2 is cut off"),
        ("offsets/2", b"", "offsets/2 is empty"),
    ],
)
async def test_a_truncated_log_gives_no_savepoint_and_is_named(
    path: str, content: bytes, words: str
):
    """A machine that crashed leaves truncated files, from which Spark cannot continue."""
    world = World()
    query = FakeQuery(world.storage, "out")
    query.run(3)
    world.storage.files[f"{query.root}/{path}"] = content
    with pytest.raises(SavepointFailed, match=f"{words}.*stoker checkpoint verify"):
        await world.take("out")
    assert world.saved.files == {}
    assert not [path for path in world.storage.files if "/pins/" in path]


async def test_a_directory_without_space_fails_the_operation_and_leaves_nothing():
    """No pins are left either (CKPT-05)."""
    world = World()
    FakeQuery(world.storage, "out").run(2)
    world.saved.fail_next("write", errno.ENOSPC)
    with pytest.raises(StorageUnavailable, match="the disk is full"):
        await world.take("out")
    assert world.saved.files == {}
    assert not [path for path in world.storage.files if "/pins/" in path]


TAKING = sorted(name for name in SAVEPOINT_FAILPOINTS if name.startswith("savepoint."))


class Crash(BaseException):
    pass


def crash() -> None:
    raise Crash


@pytest.mark.parametrize("name", TAKING)
async def test_a_crash_leaves_a_complete_savepoint_or_none(name: str):
    """Leftover files do not prevent the next savepoint (CKPT-18)."""
    world = World()
    FakeQuery(world.storage, "out").run(3)
    with armed(name, crash), pytest.raises(BaseException):  # noqa: B017
        await world.take("out")
    location = locate(PATH, world.open)
    try:
        manifest = await read_manifest(location)
    except UnusableSavepoint:
        assert await list_savepoints("/saved", world.open) == []
    else:
        assert await verify(location, manifest) == []
    # Leftover files do not prevent the next savepoint.
    await world.take("out", path="/saved/two")
    assert (await world.restore("out", path="/saved/two")).batches == {"out": 2}


@pytest.mark.parametrize("name", sorted(n for n in SAVEPOINT_FAILPOINTS if "restore." in n))
async def test_a_crashed_restore_can_be_repeated(name: str):
    world = World()
    FakeQuery(world.storage, "out").run(3)
    await world.take("out")
    with armed(name, crash), pytest.raises(BaseException):  # noqa: B017
        await world.restore("out")
    await world.restore("out")
    restored = world.checkpoint(OTHER, "out")
    assert cut_at(layout_of(restored), 2).gaps == ()


@pytest.mark.parametrize("name", ["dispose.before-manifest", "dispose.after-manifest"])
async def test_an_interrupted_disposal_leaves_a_whole_savepoint_or_none(name: str):
    world = World()
    FakeQuery(world.storage, "out").run(1)
    await world.take("out")
    with armed(name, crash), pytest.raises(Crash):
        await dispose(PATH, world.open, world.storage)
    listed = await list_savepoints("/saved", world.open)
    assert len(listed) == (1 if name == "dispose.before-manifest" else 0)


async def test_a_changed_file_is_detected_before_it_is_used():
    """A shortened and a missing file are detected as well (CKPT-11)."""
    world = World()
    FakeQuery(world.storage, "out").run(2)
    await world.take("out")
    (changed,) = [path for path in world.saved.files if path.endswith("state/0/0/1.changelog")]
    world.saved.files[changed] = b"CHANGES 1"
    with pytest.raises(UnusableSavepoint, match=r"is not what was saved"):
        await world.restore("out")
    assert await read_restore_record(world.storage, OTHER) is None
    world.saved.files[changed] = b"changes"
    with pytest.raises(UnusableSavepoint, match=r"has 7 bytes instead of 9"):
        await world.restore("out")
    del world.saved.files[changed]
    with pytest.raises(UnusableSavepoint, match=r"changelog is missing"):
        await world.restore("out")


async def test_bad_savepoints_are_refused_with_the_reason():
    world = World()
    FakeQuery(world.storage, "out").run(1)
    with pytest.raises(UnusableSavepoint, match="there is no such directory"):
        await read_manifest(locate(PATH, world.open))
    world.saved.files["one/notes.txt"] = b"mine"
    with pytest.raises(UnusableSavepoint, match="never completed"):
        await read_manifest(locate(PATH, world.open))
    await world.take("out")
    whole = world.saved.files[f"one/{MANIFEST}"]
    with pytest.raises(UnusableSavepoint, match="cut off"):
        decode_manifest(whole[:-40], PATH)
    with pytest.raises(UnusableSavepoint, match="has version 99"):
        decode_manifest(whole.replace(b'"version": 1', b'"version": 99'), PATH)
    with pytest.raises(UnusableSavepoint, match="outside"):
        decode_manifest(whole.replace(b'"graph.json"', b'"../../graph.json"'), PATH)


async def test_a_disposal_touches_neither_live_checkpoints_nor_other_directories():
    """It is refused with the reason (DISP-25)."""
    world = World()
    FakeQuery(world.storage, "out").run(1)
    before = dict(world.storage.files)
    live = world.storage.url(checkpoint_folder(JOB, "out"))
    with pytest.raises(Exception, match="belongs to a job of this cluster"):
        await dispose(live, world.open, world.storage)
    world.saved.files["precious/data"] = b"1"
    with pytest.raises(UnusableSavepoint):
        await dispose("/saved/precious", world.open, world.storage)
    assert world.storage.files == before
    assert world.saved.files == {"precious/data": b"1"}


@pytest.mark.parametrize(
    "path",
    [
        "{}/cluster 1/jobs/one",
        "/{}/cluster 1/jobs/one",
        "{}/other/../cluster 1/jobs/one",
        "file://{}/cluster%201/jobs/one",
        "file://localhost{}/%63luster%201//jobs/one",
        "file://{}/other/%2e%2e/cluster%201/jobs/one",
    ],
)
async def test_a_job_of_the_cluster_is_recognized_in_every_form_of_its_path(
    tmp_path: Path, path: str
):
    storage = FileStorage(tmp_path / "cluster 1")
    with pytest.raises(InvalidInput, match="belongs to a job of this cluster"):
        await dispose(path.format(tmp_path), World().open, storage)


def test_a_savepoint_is_named_by_its_directory_or_its_manifest():
    assert parent_and_name("file:///d/s-1/") == ("file:///d", "s-1")
    assert parent_and_name("/d/s-1/manifest.json") == ("/d", "s-1")
    for bad in ("", "/", "s-1", "file:///", "s3://bucket"):
        with pytest.raises(Exception, match="not the directory of a savepoint"):
            parent_and_name(bad)


async def test_two_savepoints_at_the_same_time_do_not_disturb_each_other():
    world = World()
    query = FakeQuery(world.storage, "out")
    query.run(3)

    async def take(number: int) -> None:
        header = SavepointHeader(savepoint_id=f"s{number}", kind="savepoint", at=1)
        location = locate(f"/saved/{number}", world.open)
        await SavepointWriter(world.storage, streaming_graph("out"), location, header).write(
            [RegionId("out")]
        )

    await asyncio.gather(*(take(number) for number in range(4)))
    assert len(await list_savepoints("/saved", world.open)) == 4


async def test_state_repartitioned_into_fewer_partitions_is_saved_without_the_old_ones():
    world = World()
    query = FakeQuery(world.storage, "out", partitions=5)
    query.run(3)
    query.partitions = 2
    query.run(1)
    manifest = await world.take("out")
    assert manifest.queries[0].operators[0].partitions == 2
    assert not [file.path for file in manifest.files if "/state/0/4/" in file.path]
    await world.restore("out")
    restored = world.checkpoint(OTHER, "out")
    read = {path: content for path, content in restored.items() if needs_content(path)}
    evidence = Evidence(paths=list(restored), contents=read, damaged={}, sizes={})
    assert diagnose("out", evidence).damages == ()


async def test_a_restored_checkpoint_refers_to_its_own_copies_of_state_schemas():
    """Spark stores absolute paths of the schemas, which are valid only for the saved job."""
    world = World()
    query = FakeQuery(world.storage, "out")
    query.run(2)
    schema = "state/0/_stateSchema/default/0_1a"
    described = {
        "operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateExec"},
        "stateStoreInfo": [
            {
                "storeName": "default",
                "numPartitions": 2,
                "stateSchemaFilePaths": [f"file:/state/jobs/{JOB}/checkpoints/out/{schema}"],
            }
        ],
    }
    folder = checkpoint_folder(JOB, "out")
    files = world.storage.files
    files[f"{folder}/{schema}"] = b"v1\n{}"
    files[f"{folder}/state/0/_metadata/v2/0"] = b"v2\n" + json.dumps(described).encode()
    files[f"{folder}/state/0/_metadata/v2/.0.crc"] = b"of the other content"
    await world.take("out")
    await world.restore("out")
    restored = world.checkpoint(OTHER, "out")
    head, text = restored["state/0/_metadata/v2/0"].decode().split("\n")
    (store,) = json.loads(text)["stateStoreInfo"]
    own = checkpoint_folder(OTHER, "out")
    assert head == "v2"
    assert store["stateSchemaFilePaths"] == [world.storage.url(f"{own}/{schema}")]
    assert "state/0/_metadata/v2/.0.crc" not in restored
